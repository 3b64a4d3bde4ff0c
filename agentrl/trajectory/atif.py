"""ATIF documents (v1.0 to v1.8) as events, so that every reader of ours reads them too."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from agentrl.errors import StoreError
from agentrl.messages import Message, ToolCall
from agentrl.task import Task
from agentrl.trajectory.events import ContextSet, EpisodeEvent, EpisodeOpened, Observed, Replied
from agentrl.trajectory.records import TokenSpan

ROLES = {"system": "system", "user": "user", "agent": "assistant"}


def events_of(document: Any, parent: str | None = None) -> list[EpisodeEvent]:
    """One episode, and one for each sub-agent embedded in it, with the first as `parent`.

    What came before the agent's first step is the opening context. Token ids and
    log-probabilities are taken where a step has all three of prompt ids, completion ids and
    log-probabilities. Raises `StoreError` naming the step that is not ATIF.
    """
    if not is_atif(document):
        raise _bad("it has no `schema_version` that begins with ATIF-v1.", "the root")
    name = str(document.get("trajectory_id") or document.get("session_id") or "atif")
    steps = document.get("steps")
    if not isinstance(steps, list) or not steps:
        raise _bad("`steps` is not a list with at least one step", name)
    first = next((i for i, s in enumerate(steps) if s.get("source") == "agent"), len(steps))
    opening = tuple(_message(step, name) for step in steps[:first])
    asked = next((message.content for message in opening if message.role == "user"), "")
    agent = document.get("agent") or {}
    about = {"family": str(agent.get("name", "atif")), "agent": agent.get("model_name")}
    task = Task(name, "atif", asked, meta=about)
    at = max(map(_time, steps[:first]), default=0.0)
    at = at or next((known for step in steps if (known := _time(step))), 0.0)
    out: list[EpisodeEvent] = [
        EpisodeOpened(episode=name, group=parent or name, task=task, parent=parent, at=at),
        ContextSet(episode=name, by="env", context=opening, at=at),
    ]
    out += _played(name, steps[first:], at)
    for embedded in document.get("subagent_trajectories") or ():
        out += events_of(embedded, name)
    return out


def is_atif(document: Any) -> bool:
    version = document.get("schema_version") if isinstance(document, dict) else None
    return isinstance(version, str) and version.startswith("ATIF-v1.")


def _played(name: str, steps: Sequence[Any], at: float) -> Iterator[EpisodeEvent]:
    sent: list[int] = []
    waiting: list[Message] = []  # what came back since the last reply

    def observed() -> Iterator[EpisodeEvent]:
        if waiting:
            yield Observed(episode=name, seen=tuple(waiting), at=at)
            waiting.clear()

    for step in steps:
        if step.get("source") != "agent":
            waiting.append(_message(step, name))
            waiting += _results(step)
            at = _time(step, at)
            continue
        yield from observed()
        at = _time(step, at)
        span = _span(step, sent)
        if span is not None:
            sent = [*(sent if span.continues else ()), *span.context, *span.sampled]
        by = "copied context" if step.get("is_copied_context") else "agent"
        yield Replied(episode=name, by=by, reply=_message(step, name), tokens=span, at=at)
        waiting += _results(step)
    yield from observed()


def _message(step: Any, name: str) -> Message:
    if not isinstance(step, dict) or step.get("source") not in ROLES or "message" not in step:
        number = step.get("step_id") if isinstance(step, dict) else step
        raise _bad("a step needs `source` (system, user, agent) and `message`", f"{name}#{number}")
    calls = tuple(
        ToolCall(
            str(call.get("tool_call_id", "")),
            str(call.get("function_name", "")),
            call["arguments"] if isinstance(call.get("arguments"), dict) else {},
        )
        for call in step.get("tool_calls") or ()
    )
    thought = step.get("reasoning_content")
    content = text_of(step["message"])
    if thought:
        content = f"<think>\n{thought}\n</think>\n{content}"
    return Message(ROLES[step["source"]], content, calls)  # type: ignore[arg-type]


def _results(step: Any) -> list[Message]:
    results = (step.get("observation") or {}).get("results") or ()
    return [
        Message("tool", text_of(result.get("content")), call_id=result.get("source_call_id"))
        for result in results
    ]


def _span(step: Any, sent: list[int]) -> TokenSpan | None:
    metrics = step.get("metrics") or {}
    prompt, sampled = metrics.get("prompt_token_ids"), metrics.get("completion_token_ids")
    logprobs = metrics.get("logprobs")
    if not prompt or not sampled or logprobs is None or len(logprobs) != len(sampled):
        return None
    continues = bool(sent) and prompt[: len(sent)] == sent
    context = prompt[len(sent) :] if continues else list(prompt)
    cached = int(metrics.get("cached_tokens") or 0)
    return TokenSpan(context, list(sampled), list(logprobs), [(0, -1)], continues, cached)


def text_of(content: Any) -> str:
    """The words of a content that may be parts; a part that is no text is named with its path."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return str(content)
    return "\n".join(_part(part) for part in content)


def _part(part: Any) -> str:
    if not isinstance(part, dict):
        return str(part)
    if "text" in part:
        return str(part["text"])
    source = part.get("source") or part.get("image_url") or {}
    place = source.get("path") or source.get("url", "") if isinstance(source, dict) else source
    return f"[{part.get('type', 'part')} {str(place)[:80]}]"


def _time(step: Any, before: float = 0.0) -> float:
    """Seconds since the epoch, never before what went before."""
    try:
        found = datetime.fromisoformat(str(step.get("timestamp"))).timestamp()
    except (ValueError, AttributeError):
        return before
    return max(found, before)


def _bad(what: str, where: str) -> StoreError:
    return StoreError(
        f"this is not an ATIF trajectory: {what}",
        where=where,
        help="ATIF-v1.0 to ATIF-v1.8 are read",
    )
