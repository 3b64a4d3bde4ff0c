"""One episode as the screens show it: its turns, their times, what the model saw at each."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct, field

from agentrl.messages import Message
from agentrl.trajectory.events import (
    ContextSet,
    EpisodeEvent,
    EpisodeOpened,
    Observed,
    Replied,
    TokensScored,
)
from agentrl.trajectory.fold import apply
from agentrl.trajectory.records import Step, Trajectory


class Turn(Struct, frozen=True):
    """One reply and what came back. Seconds and tokens are None where they were not recorded."""

    step: Step
    context: int | None  # tokens of the prompt
    model_s: float | None  # from what went before to the reply
    tools_s: float | None  # from the reply to what came back
    rewrite: str = ""  # who set the context anew before this reply
    advantage: float | None = None
    scored: tuple[float, ...] = ()  # log-probabilities the learner gave its tokens


class Play(Struct, frozen=True):
    """An episode, whole or still being played. `contexts` are (turns before it, its messages)."""

    trajectory: Trajectory
    turns: tuple[Turn, ...]
    contexts: tuple[tuple[int, tuple[Message, ...]], ...] = ()

    def saw(self, turn: int) -> list[tuple[int, Message]]:
        """What the model saw when it gave reply `turn`: (turn it came from, message).

        A message that was there before the first reply, or that a memory wrote, comes from -1.
        """
        start, context = 0, self.trajectory.opening
        for since, messages in self.contexts:
            if since <= turn:
                start, context = since, messages
        out = [(-1, message) for message in context]
        for number in range(start, turn):
            step = self.turns[number].step
            if step.by == "agent":
                out += [(number, step.reply), *((number, message) for message in step.seen)]
        return out

    def markers(self) -> list[int]:
        """Turns worth a look: the context was rewritten, a call could not be read, it broke."""
        marks = {i for i, t in enumerate(self.turns) if t.rewrite or t.step.malformed}
        if self.trajectory.error is not None and self.turns:
            marks.add(len(self.turns) - 1)
        return sorted(marks)


class _Times(Struct):
    """What the fold does not keep."""

    last: float = 0.0
    replies: list[tuple[float, float]] = field(default_factory=list)  # (before, at) of each
    seen: dict[int, float] = field(default_factory=dict)
    rewrites: dict[int, str] = field(default_factory=dict)
    contexts: list[tuple[int, tuple[Message, ...]]] = field(default_factory=list)
    scored: dict[int, tuple[float, ...]] = field(default_factory=dict)  # by segment


def play(events: Iterable[EpisodeEvent]) -> Play | None:
    """The events of one episode, in order; None where there are none. `StoreError` as the fold."""
    state: Trajectory | None = None
    times = _Times()
    for event in events:
        state = apply(state, event)
        match event:
            case EpisodeOpened():
                times = _Times()
            case ContextSet(by=by, context=context):
                count = len(times.replies)
                if count:
                    times.rewrites[count] = by
                times.contexts.append((count, context))
            case Replied():
                times.replies.append((times.last, event.at))
            case Observed():
                times.seen[len(times.replies) - 1] = event.at
            case TokensScored():
                times.scored[event.segment] = event.logprobs
        times.last = event.at
    return None if state is None else Play(state, _turns(state, times), tuple(times.contexts))


def _turns(state: Trajectory, times: _Times) -> tuple[Turn, ...]:
    out: list[Turn] = []
    scored = _by_turn(state, times.scored)
    sent: int | None = 0
    for index, (step, (before, at)) in enumerate(zip(state.steps, times.replies, strict=True)):
        context = _context(step, sent)
        came = times.seen.get(index)
        out.append(
            Turn(
                step,
                context,
                _between(before, at),
                None if came is None else _between(at, came),
                times.rewrites.get(index, ""),
                state.advantages[index] if index < len(state.advantages) else None,
                scored.get(index, ()),
            )
        )
        sampled = 0 if step.tokens is None else len(step.tokens.sampled)
        sent = None if context is None else context + sampled
    return tuple(out)


def _by_turn(
    state: Trajectory, scored: dict[int, tuple[float, ...]]
) -> dict[int, tuple[float, ...]]:
    """A segment's numbers cut at its turns; left out where they are not one a sampled token."""
    counts: dict[int, list[tuple[int, int]]] = {}
    for step in state.steps:
        sampled = 0 if step.tokens is None else len(step.tokens.sampled)
        counts.setdefault(step.segment, []).append((step.index, sampled))
    out: dict[int, tuple[float, ...]] = {}
    for segment, numbers in scored.items():
        turns = counts.get(segment, [])
        if sum(count for _, count in turns) != len(numbers):
            continue
        start = 0
        for index, count in turns:
            out[index] = numbers[start : start + count]
            start += count
    return out


def _between(before: float, at: float) -> float | None:
    """Seconds from one happening to the next; a file without a clock has the same time for both."""
    return None if at == before or not before else max(at - before, 0.0)


def _context(step: Step, sent: int | None) -> int | None:
    if step.tokens is None:
        return None
    if not step.tokens.continues:
        return len(step.tokens.context)
    return None if sent is None else sent + len(step.tokens.context)


def call_line(step: Step) -> str:
    """A turn in one line: what it called, else what it said."""
    if step.reply.calls:
        return " · ".join(
            f"{call.name or '(unreadable)'} {_arguments(call.arguments)}".rstrip()
            for call in step.reply.calls
        )
    return step.reply.content.strip().split("\n")[0]


def _arguments(arguments: dict[str, Any]) -> str:
    values = [value if isinstance(value, str) else str(value) for value in arguments.values()]
    return " ".join(value.replace("\n", "⏎") for value in values)
