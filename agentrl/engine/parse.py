"""What a model wrote -> words and tool calls. Nothing it can write raises."""

import json
import re
from typing import Any

import msgspec

from agentrl.messages import Message, ToolCall

OPEN, CLOSE = "<tool_call>", "</tool_call>"
EXPECTED = 'expected {"name": "<tool>", "arguments": {...}}'
CUT = "reply was cut at the token limit inside a tool call"

_FENCE = re.compile(r"\A```(?:json)?\s*\n(.*)\n```\Z", re.DOTALL)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


# Control characters inside strings are let pass: models write line breaks into them.
_decoder = json.JSONDecoder(strict=False, parse_constant=_no_constant)


def parse(text: str, turn: int = 0, cut: bool = False) -> Message:
    """The assistant message that `text` stands for.

    Understands `<tool_call>{json}</tool_call>`, any number of them among words, and a reply that is
    one JSON object with a name and arguments. A call that cannot be read becomes a `ToolCall` with
    an `error` that says what was expected, and its text stays in the content. Call ids are
    `c<turn>.<n>`. `cut` says that the reply ended at the token limit.
    """
    if OPEN not in text:
        call = _bare(text, f"c{turn}.0")
        return Message("assistant", text.strip()) if call is None else _message("", [call])
    words: list[str] = []
    calls: list[ToolCall] = []
    at = 0
    while (start := text.find(OPEN, at)) >= 0:
        words.append(text[at:start])
        call, at = _tagged(text, start, f"c{turn}.{len(calls)}", cut)
        if call.error is not None:
            words.append(text[start:at])
        calls.append(call)
    words.append(text[at:])
    return _message("".join(words), calls)


def _message(words: str, calls: list[ToolCall]) -> Message:
    return Message("assistant", words.strip(), tuple(calls))


def _tagged(text: str, start: int, call_id: str, cut: bool) -> tuple[ToolCall, int]:
    """The call whose tag opens at `start`, and where the text goes on."""
    body = start + len(OPEN)
    while body < len(text) and text[body] in " \t\r\n":
        body += 1
    close = text.find(CLOSE, body)
    try:
        value, end = _decoder.raw_decode(text, body)
    except (ValueError, RecursionError) as error:
        if close < 0:
            return _unclosed(call_id, cut), len(text)
        what = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        broken = ToolCall(call_id, "", error=f"the call is not valid JSON ({what}); {EXPECTED}")
        return broken, close + len(CLOSE)
    rest = text[end:].lstrip()
    if rest.startswith(CLOSE):
        return _call(value, call_id), len(text) - len(rest) + len(CLOSE)
    # The tag is looked for behind the JSON first, so that an argument may hold the tag's text.
    close = text.find(CLOSE, end)
    if close < 0:
        return _unclosed(call_id, cut), len(text)
    extra = f"text follows the JSON object of the call; {EXPECTED}"
    return ToolCall(call_id, "", error=extra), close + len(CLOSE)


def _unclosed(call_id: str, cut: bool) -> ToolCall:
    return ToolCall(call_id, "", error=CUT if cut else f"{OPEN} was never closed by {CLOSE}")


def _call(value: Any, call_id: str) -> ToolCall:
    if not isinstance(value, dict):
        return ToolCall(call_id, "", error=f"the call is not a JSON object; {EXPECTED}")
    name = value.get("name")
    if not isinstance(name, str) or not name:
        return ToolCall(call_id, "", error=f"the call has no name; {EXPECTED}")
    arguments = value.get("arguments", value.get("parameters", {}))
    if not isinstance(arguments, dict):
        return ToolCall(call_id, name, error=f"arguments are not an object; {EXPECTED}")
    try:
        msgspec.json.encode([name, arguments])
    except (ValueError, OverflowError, RecursionError) as error:
        # Lone surrogates and huge numbers parse, but can be neither recorded nor passed on.
        safe = name.encode("utf-8", "replace").decode()
        return ToolCall(call_id, safe, error=f"arguments cannot be used: {error}; {EXPECTED}")
    return ToolCall(call_id, name, arguments)


def _bare(text: str, call_id: str) -> ToolCall | None:
    """A reply that is nothing but a call in JSON, fenced or not."""
    body = text.strip()
    fenced = _FENCE.match(body)
    body = fenced[1].strip() if fenced else body
    if not body.startswith("{") or '"name"' not in body:
        return None
    try:
        value, end = _decoder.raw_decode(body)
    except (ValueError, RecursionError):
        return None
    if end != len(body) or not ("arguments" in value or "parameters" in value):
        return None
    return _call(value, call_id)
