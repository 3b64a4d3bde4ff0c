import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.engine.parse import CUT, parse
from agentrl.messages import ToolCall

GOOD = '<tool_call>\n{"name": "shell", "arguments": {"command": "ls"}}\n</tool_call>'


def test_several_calls_among_words() -> None:
    message = parse(f"I look.\n{GOOD}\n{GOOD}\nThen I wait.", turn=3)
    ls = {"command": "ls"}
    assert message.calls == (ToolCall("c3.0", "shell", ls), ToolCall("c3.1", "shell", ls))
    assert message.content == "I look.\n\n\nThen I wait."


def test_plain_words_are_plain_words() -> None:
    message = parse('All done: {"name": "x"}')
    assert (message.content, message.calls) == ('All done: {"name": "x"}', ())


def test_the_closing_tag_inside_an_argument_closes_nothing() -> None:
    inner = '{"name": "write", "arguments": {"text": "a</tool_call>\\n<tool_call>b"}}'
    (call,) = parse(f"<tool_call>{inner}</tool_call>").calls
    assert call.error is None
    assert call.arguments == {"text": "a</tool_call>\n<tool_call>b"}


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "shell", "arguments": {"command": "ls"}}',
        '```json\n{"name": "shell", "parameters": {"command": "ls"}}\n```',
    ],
)
def test_a_reply_that_is_one_json_call(text: str) -> None:
    message = parse(text, turn=1)
    assert message.calls == (ToolCall("c1.0", "shell", {"command": "ls"}),)
    assert message.content == ""


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("{oops}", "not valid JSON"),
        ("", "not valid JSON"),
        ("[1]", "not a JSON object"),
        ('{"arguments": {}}', "no name"),
        ('{"name": 3, "arguments": {}}', "no name"),
        ('{"name": "x", "arguments": "ls"}', "arguments are not an object"),
        ('{"name": "x", "arguments": {}} more', "text follows"),
        ('{"name": "x", "arguments": {"a": NaN}}', "not valid JSON"),
        ('{"name": "x", "arguments": {"a": "\\ud800"}}', "cannot be used"),
        ('{"name": "\\ud800", "arguments": {}}', "cannot be used"),
        ('{"name": "x", "arguments": {"a": 1' + "0" * 6000 + "}}", "not valid JSON"),
        ("[" * 200_000, "not valid JSON"),
    ],
)
def test_a_call_that_cannot_be_read_says_what_was_expected(body: str, error: str) -> None:
    text = f"<tool_call>{body}</tool_call>"
    message = parse(f"{text}\n{GOOD}")
    broken, fine = message.calls
    assert broken.error is not None
    assert error in broken.error
    assert '{"name": "<tool>", "arguments": {...}}' in broken.error
    assert fine == ToolCall("c0.1", "shell", {"command": "ls"})
    assert message.content == text
    msgspec.json.encode(message)


def test_an_unclosed_call_says_whether_the_limit_cut_it() -> None:
    for text in ('x<tool_call>{"name": "sh', '<tool_call>{"name": "x", "arguments": {}}'):
        assert parse(text, cut=True).calls[0].error == CUT
        assert "never closed" in (parse(text).calls[0].error or "")


parts = ["<tool_call>", "</tool_call>", "{", "}", '"name"', ":", '"x"', '"arguments"', ",", "\n"]


@given(st.lists(st.sampled_from([*parts, "[", "]", "é", "\\ud800", "1e999"])).map("".join))
def test_nothing_that_can_be_written_raises_and_all_can_be_recorded(text: str) -> None:
    message = parse(text)
    assert msgspec.json.decode(msgspec.json.encode(message), type=type(message)) == message
    assert parse(text) == message
