"""Events in, trajectory out. Live and replayed runs both pass through here."""

from collections.abc import Iterable
from itertools import zip_longest
from typing import get_args

from msgspec.structs import replace

from agentrl.errors import StoreError
from agentrl.trajectory.events import (
    ContextSet,
    Credited,
    EpisodeEvent,
    EpisodeOpened,
    EpisodeStopped,
    Event,
    Observed,
    Replied,
    TokensScored,
    Valued,
    Verified,
)
from agentrl.trajectory.records import Step, Trajectory

_EPISODE = get_args(EpisodeEvent)


def apply(state: Trajectory | None, event: EpisodeEvent) -> Trajectory:
    """The trajectory after `event`; `state` is what was known before, None for nothing.

    An opening always starts afresh. Raises `StoreError` where an event has nothing to stand on:
    any before the opening, an observation before the first reply.
    """
    if isinstance(event, EpisodeOpened):
        return Trajectory(
            id=event.episode,
            group=event.group,
            task=event.task,
            parent=event.parent,
            fork_step=event.fork_step,
            opened_at=event.at,
        )
    if state is None:
        raise _headless(event, "its opening")
    match event:
        case ContextSet():
            began = bool(state.opening or state.steps)
            return state if began else replace(state, opening=event.context)
        case Replied():
            return _replied(state, event)
        case Observed():
            return _observed(state, event)
        case EpisodeStopped():
            return replace(state, stop=event.why, error=event.error, stopped_at=event.at)
        case Verified():
            return replace(state, verdict=event.verdict, reward=event.reward)
        case Credited():
            # A later scheme may credit an old run again; that does not untrain it.
            trained = state.trained_step if event.step is None else event.step
            return replace(state, advantages=event.advantages, trained_step=trained)
        case Valued():
            return _valued(state, event)
        case TokensScored():
            return state  # one number a token is for the viewer, not for the noun


def fold(events: Iterable[Event]) -> dict[str, Trajectory]:
    """Every episode by id, in the order in which they were (last) opened.

    Run-level events are passed over. An id opened twice counts from its second opening.
    """
    states: dict[str, Trajectory] = {}
    for event in events:
        if not isinstance(event, _EPISODE):
            continue
        before = states.get(event.episode)
        if before is not None and isinstance(event, EpisodeOpened):
            del states[event.episode]
        states[event.episode] = apply(before, event)
    return states


def _replied(state: Trajectory, event: Replied) -> Trajectory:
    broke = event.tokens is not None and not event.tokens.continues
    segments = state.segments + (broke or not state.steps)
    step = Step(
        index=len(state.steps),
        segment=segments - 1,
        by=event.by,
        reply=event.reply,
        tokens=event.tokens,
        at=event.at,
        usage=event.usage,
    )
    return replace(state, steps=(*state.steps, step), segments=segments)


def _observed(state: Trajectory, event: Observed) -> Trajectory:
    if not state.steps:
        raise _headless(event, "a reply")
    last = replace(
        state.steps[-1],
        seen=event.seen,
        signals=event.signals,
        malformed=event.malformed,
        state=event.state,
    )
    return replace(state, steps=(*state.steps[:-1], last))


def _valued(state: Trajectory, event: Valued) -> Trajectory:
    """Estimates belong to the first steps; those made before a step was played stay unset."""
    known = zip_longest(event.values[: len(state.steps)], event.tokens[: len(state.steps)])
    valued = tuple(
        replace(step, value=value, values=tokens or ())
        for step, (value, tokens) in zip(state.steps, known, strict=False)
    )
    return replace(state, steps=valued + state.steps[len(valued) :])


def _headless(event: EpisodeEvent, missing: str) -> StoreError:
    return StoreError(
        f"episode {event.episode!r} has {type(event).__name__} without {missing} before it",
        where=f"episode {event.episode!r}, at {event.at:.3f}",
        help="one shard of this run is missing or was cut: restore it, or leave that episode out",
    )
