from pathlib import Path

import pytest
import transformers

from agentrl.engine.render import Renderer
from agentrl.engine.tokens import Tokenizer
from agentrl.errors import ConfigError, EngineError
from agentrl.messages import Message, ToolCall
from agentrl.tool import ToolSpec
from tests.engine.checkpoints import save_tokenizer

TOOLS = [ToolSpec("shell", "run <it> & see é", {"command": {"type": "string"}})]
CALL = ToolCall("c0.0", "shell", {"command": 'echo "<a>"'})
CONTEXT = [
    Message("system", "Be brief."),
    Message("user", "List the files."),
    Message("assistant", "", (CALL,)),
    Message("tool", "a\nb <|x|>", call_id="c0.0"),
    Message("assistant", "Two."),
    Message("user", "Thanks"),
]


@pytest.fixture(params=["chatml", "llama3"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    save_tokenizer(tmp_path, request.param)
    return tmp_path


def test_prompts_equal_those_of_transformers(folder: Path) -> None:
    renderer = Renderer(Tokenizer.load(folder))
    theirs = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"),
        chat_template=renderer.tokenizer.template,
        **renderer.tokenizer.specials,
    )
    function = {"name": "shell", "arguments": CALL.arguments}
    plain = [{"role": m.role, "content": m.content} for m in CONTEXT]
    plain[2]["tool_calls"] = [{"type": "function", "function": function}]  # type: ignore[assignment]
    schema = {
        "type": "object",
        "properties": {"command": {"type": "string"}},
        "required": ["command"],
    }
    tool = {"name": "shell", "description": TOOLS[0].description, "parameters": schema}
    for tools, theirs_tools in (([], None), (TOOLS, [{"type": "function", "function": tool}])):
        want = theirs.apply_chat_template(
            plain, tools=theirs_tools, add_generation_prompt=True, return_dict=False
        )
        assert renderer.prompt(CONTEXT, tools) == want


def reply(renderer: Renderer, text: str, ended: bool) -> list[int]:
    eos = list(renderer.tokenizer.eos) if ended else []
    return [*renderer.tokenizer.encode(text), *eos]


@pytest.mark.parametrize("ended", [True, False])
def test_a_bridge_extends_what_was_sampled_by_what_a_fresh_render_would_add(
    folder: Path, ended: bool
) -> None:
    renderer = Renderer(Tokenizer.load(folder))
    for count in (2, 4):
        first = renderer.prompt(CONTEXT[:count], TOOLS)
        text = "Two." if count == 4 else "odd  spelling of a call"
        sent = first + reply(renderer, text, ended)
        context = [*CONTEXT[:count], Message("assistant", text), *CONTEXT[count + 1 : count + 2]]
        bridged = renderer.bridge(sent, context, TOOLS, ended)
        assert bridged is not None
        assert bridged[: len(sent)] == sent
        assert bridged == renderer.prompt(context, TOOLS)


def test_another_stop_token_is_kept_and_the_turn_still_closed(tmp_path: Path) -> None:
    save_tokenizer(tmp_path, "chatml")
    renderer = Renderer(Tokenizer.load(tmp_path))
    sent = [*renderer.prompt(CONTEXT[:2]), 50, 0]
    context = [*CONTEXT[:2], Message("assistant", "x"), Message("user", "y")]
    bridged = renderer.bridge(sent, context, [], True)
    assert bridged is not None
    assert bridged[: len(sent) + 1] == [*sent, *renderer.tokenizer.eos]


def test_a_template_that_drops_or_refuses_the_reply_is_not_bridged(tmp_path: Path) -> None:
    save_tokenizer(tmp_path, "chatml")
    context = [Message("user", "a"), Message("assistant", "b"), Message("user", "c")]
    for template in (
        "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}",
        "{% for m in messages %}{{ m.content }}{{ m.content }}{% endfor %}",
        "{% for m in messages %}{% if m.role == 'assistant' and not m.tool_calls %}"
        "{{ raise_exception('calls wanted') }}{% endif %}{% endfor %}",
    ):
        (tmp_path / "chat_template.jinja").write_text(template)
        renderer = Renderer(Tokenizer.load(tmp_path))
        assert renderer.bridge([1, 2], context, [], True) is None
        assert renderer.bridge([1, 2], context[:1], [], True) is None


def test_a_refusing_template_says_why(tmp_path: Path) -> None:
    save_tokenizer(tmp_path, "llama3")
    renderer = Renderer(Tokenizer.load(tmp_path))
    with pytest.raises(EngineError, match="only one call at a time"):
        renderer.prompt([Message("assistant", "", (CALL, CALL))])
    (tmp_path / "chat_template.jinja").write_text("{% if %}")
    with pytest.raises(ConfigError, match="cannot be read"):
        Renderer(Tokenizer.load(tmp_path))


def test_calls_that_could_not_be_read_are_shown_as_they_were_written(tmp_path: Path) -> None:
    save_tokenizer(tmp_path, "chatml")
    renderer = Renderer(Tokenizer.load(tmp_path))
    text = "<tool_call>{oops}</tool_call>"
    message = renderer.parse(text)
    assert message.calls[0].error
    shown = renderer.text([Message("user", "x"), message])
    assert f"<|im_start|>assistant\n{text}<|im_end|>" in shown


def test_generation_marks_loop_controls_and_dates_are_understood(tmp_path: Path) -> None:
    save_tokenizer(tmp_path, "chatml")
    (tmp_path / "chat_template.jinja").write_text(
        "{{ strftime_now('%Y') | length }}{% for m in messages %}{% generation %}"
        "{{ m.content }}{% endgeneration %}{% break %}{% endfor %}"
    )
    renderer = Renderer(Tokenizer.load(tmp_path))
    assert renderer.text([Message("user", "a"), Message("user", "b")]) == "4a"


def test_templates_cannot_reach_into_python(tmp_path: Path) -> None:
    save_tokenizer(tmp_path, "chatml")
    (tmp_path / "chat_template.jinja").write_text("{{ messages.__class__.__mro__ }}")
    with pytest.raises(EngineError, match="unsafe"):
        Renderer(Tokenizer.load(tmp_path)).prompt([Message("user", "a")])
