"""Files that other tools wrote, as events: ATIF, OpenAI messages, mini-swe-agent."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from agentrl.errors import StoreError
from agentrl.messages import Message, ToolCall
from agentrl.task import Task
from agentrl.trajectory import atif
from agentrl.trajectory.events import (
    ContextSet,
    EpisodeEvent,
    EpisodeOpened,
    EpisodeStopped,
    Observed,
    Replied,
)
from agentrl.trajectory.records import Stop

ROLES = {"developer": "system", "function": "tool", "exit": "user"}


def read_file(path: Path) -> list[EpisodeEvent]:
    """The episodes of a file, each from its opening on.

    Known: one ATIF document; a list of OpenAI chat messages, an object with `messages` (also
    mini-swe-agent's `.traj.json`); JSON lines, each such an object, or each one message. Raises
    `StoreError` for anything else.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise StoreError(f"the file cannot be read: {error.strerror}", where=str(path)) from error
    documents = _documents(text, path)
    if documents and all(_is_message(one) for one in documents):
        documents = [documents]
    out: list[EpisodeEvent] = []
    for number, document in enumerate(documents):
        name = path.name.split(".")[0] if len(documents) == 1 else str(number)
        if atif.is_atif(document):
            out += atif.events_of(document)
        else:
            out += _conversation(document, name, path)
    if not out:
        raise _unknown(path, "it is empty")
    return out


def _documents(text: str, path: Path) -> list[Any]:
    try:
        return [json.loads(text)]
    except ValueError:
        pass  # several, a line each
    try:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except ValueError as error:
        raise _unknown(path, f"it is neither JSON nor JSON lines ({error})") from error


def _conversation(document: Any, name: str, path: Path) -> Iterator[EpisodeEvent]:
    info = document if isinstance(document, dict) else {}
    messages = info.get("messages") if info else document
    if not isinstance(messages, list) or not messages or not all(map(_is_message, messages)):
        raise _unknown(path, "it holds no messages with a role")
    name = str(info.get("id") or info.get("episode") or name)
    said = [_message(message) for message in messages]
    first = next((i for i, m in enumerate(said) if m.role == "assistant"), len(said))
    asked = next((message.content for message in said[:first] if message.role == "user"), "")
    opened = EpisodeOpened(episode=name, group=name, task=Task(name, "file", asked), at=0.0)
    yield opened
    yield ContextSet(episode=name, by="env", context=tuple(said[:first]), at=0.0)
    yield from _turns(name, said[first:])
    status = (info.get("info") or {}).get("exit_status")
    if status is not None:  # mini-swe-agent
        done = status == "Submitted"
        limits = status in ("LimitsExceeded", "TimeExceeded")
        why: Stop = "done" if done else "steps" if limits else "error"
        error = None if done or limits else str(status)
        yield EpisodeStopped(episode=name, why=why, error=error, at=0.0)


def _turns(name: str, messages: Sequence[Message]) -> Iterator[EpisodeEvent]:
    seen: list[Message] = []
    for message in [*messages, None]:
        if message is not None and message.role != "assistant":
            seen.append(message)
            continue
        if seen:
            yield Observed(episode=name, seen=tuple(seen), at=0.0)
            seen = []
        if message is not None:
            yield Replied(episode=name, by="agent", reply=message, at=0.0)


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str)


def _message(raw: Any) -> Message:
    role = ROLES.get(raw["role"], raw["role"])
    if role not in ("system", "user", "assistant", "tool"):
        role = "user"
    content = atif.text_of(raw.get("content"))
    thought = raw.get("reasoning_content") or raw.get("reasoning")
    if isinstance(thought, str) and thought:
        content = f"<think>\n{thought}\n</think>\n{content}"
    calls = tuple(_call(call) for call in raw.get("tool_calls") or ())
    return Message(role, content, calls, raw.get("tool_call_id"))


def _call(raw: Any) -> ToolCall:
    """Arguments are a string of JSON; one that cannot be read is shown as it is."""
    function = raw.get("function") or {}
    written = function.get("arguments") or "{}"
    name, call_id = str(function.get("name", "")), str(raw.get("id", ""))
    if isinstance(written, dict):
        return ToolCall(call_id, name, written)
    try:
        arguments = json.loads(written)
    except ValueError as error:
        return ToolCall(call_id, name, {"arguments": written}, f"arguments are not JSON: {error}")
    if isinstance(arguments, dict):
        return ToolCall(call_id, name, arguments)
    return ToolCall(call_id, name, {"arguments": arguments}, "arguments are no JSON object")


def _unknown(path: Path, why: str) -> StoreError:
    return StoreError(
        f"this file holds no episode that can be read: {why}",
        where=str(path),
        help="known are ATIF, OpenAI chat messages (JSON or JSON lines) and .traj.json",
    )
