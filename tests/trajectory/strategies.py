"""Random lives: events as a run writes them, for several episodes and writers."""

from functools import cache
from typing import get_args

from hypothesis import strategies as st

from agentrl.messages import Message, ToolCall
from agentrl.task import Limits, SandboxSpec, Task
from agentrl.trajectory.events import (
    BatchTrained,
    ContextSet,
    Credited,
    EpisodeEvent,
    EpisodeOpened,
    EpisodeStopped,
    Event,
    HeldOutMeasured,
    Observed,
    Replied,
    RunStarted,
    Valued,
    Verified,
    WeightsLive,
    WeightsPublished,
)
from agentrl.trajectory.records import Stop, TokenSpan, Verdict

ids = st.integers(0, 60_000)
real = st.floats(allow_nan=False, allow_infinity=False)
words = st.text(max_size=12)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | real | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(words, json_values, max_size=3)
numbers = st.dictionaries(words, real, max_size=3)
clock = st.floats(0, 2e9)
calls = st.builds(ToolCall, words, words, objects, st.none() | words)
messages = st.builds(
    Message,
    st.sampled_from(["system", "user", "assistant", "tool"]),
    words,
    st.lists(calls, max_size=2).map(tuple),
    st.none() | words,
)
conversation = st.lists(messages, max_size=3).map(tuple)
tasks = st.builds(
    Task,
    id=words,
    suite=words,
    instruction=words,
    files=st.dictionaries(words, st.binary(max_size=20), max_size=2),
    tests=st.dictionaries(words, st.binary(max_size=20), max_size=2),
    oracle=st.lists(calls, max_size=2).map(tuple),
    env=words,
    verifier=words,
    sandbox=st.builds(SandboxSpec, image=st.none() | words, workdir=words, network=st.booleans()),
    limits=st.builds(Limits, st.integers(1, 99)),
    meta=objects,
)
verdicts = st.builds(
    Verdict,
    st.sampled_from(["reward", "masked", "invalid"]),
    st.none() | real,
    numbers,
    words,
    st.lists(words, max_size=2).map(tuple),
)
stops = st.sampled_from(get_args(Stop))


@cache
@st.composite
def spans(draw: st.DrawFn, continues: st.SearchStrategy[bool] | None = None) -> TokenSpan:
    """A span as an engine returns it: one log-probability a token, versions rising from 0."""
    sampled = draw(st.lists(ids, max_size=8))
    logprobs = [draw(st.floats(-1e3, 0)) for _ in sampled]
    cuts = draw(st.sets(st.integers(1, max(1, len(sampled) - 1)), max_size=2))
    starts = [0, *sorted(cut for cut in cuts if cut < len(sampled))] if sampled else []
    versions = [(start, draw(st.integers(0, 99))) for start in starts]
    return TokenSpan(
        draw(st.lists(ids, max_size=8)),
        sampled,
        logprobs,
        versions,
        draw(continues if continues is not None else st.booleans()),
        draw(st.integers(0, 999)),
    )


@cache
def lives(episode: str) -> st.SearchStrategy[list[EpisodeEvent]]:
    """The events of one episode from its opening on, as its own writer sees them."""
    turn = st.builds(
        lambda reply, seen: [reply, *seen],
        st.builds(
            Replied,
            episode=st.just(episode),
            by=words,
            reply=messages,
            tokens=st.none() | spans(),
            at=clock,
        ),
        st.lists(
            st.builds(
                Observed,
                episode=st.just(episode),
                seen=conversation,
                signals=numbers,
                malformed=st.integers(0, 3),
                state=words,
                at=clock,
            )
            | st.builds(
                ContextSet, episode=st.just(episode), by=words, context=conversation, at=clock
            ),
            max_size=2,
        ),
    )
    opening = st.builds(
        EpisodeOpened,
        episode=st.just(episode),
        group=st.sampled_from(["g0", "g1"]),
        task=tasks,
        parent=st.none() | words,
        fork_step=st.none() | st.integers(0, 9),
        at=clock,
    )
    ending = st.lists(
        st.builds(
            EpisodeStopped, episode=st.just(episode), why=stops, error=st.none() | words, at=clock
        )
        | st.builds(
            Verified, episode=st.just(episode), verdict=verdicts, reward=st.none() | real, at=clock
        ),
        max_size=3,
    )
    return st.builds(
        lambda first, turns, last: [first, *(event for turn in turns for event in turn), *last],
        opening,
        st.lists(turn, max_size=4),
        ending,
    )


@cache
def credits(episode: str) -> st.SearchStrategy[Credited]:
    return st.builds(
        Credited,
        episode=st.just(episode),
        by=words,
        advantages=st.lists(real, max_size=4).map(tuple),
        step=st.none() | st.integers(0, 99),
        at=clock,
    )


@cache
def values(episode: str) -> st.SearchStrategy[Valued]:
    return st.builds(
        Valued,
        episode=st.just(episode),
        by=words,
        values=st.lists(st.none() | real, max_size=4).map(tuple),
        tokens=st.lists(st.lists(real, max_size=3).map(tuple), max_size=4).map(tuple),
        at=clock,
    )


run_events: st.SearchStrategy[Event] = st.one_of(
    st.builds(RunStarted, run=words, attempt=st.integers(0, 9), step=st.integers(0, 9), at=clock),
    st.builds(
        BatchTrained,
        step=st.integers(0, 99),
        groups=st.lists(words, max_size=3).map(tuple),
        stats=numbers,
        at=clock,
    ),
    st.builds(WeightsPublished, version=st.integers(0, 99), path=words, at=clock),
    st.builds(WeightsLive, version=st.integers(0, 99), seconds=real, at=clock),
    st.builds(
        HeldOutMeasured,
        step=st.integers(0, 99),
        results=st.dictionaries(words, st.none() | real, max_size=3),
        meta=objects,
        at=clock,
    ),
)
any_event: st.SearchStrategy[Event] = (
    lives("e").flatmap(st.sampled_from) | credits("e") | values("e") | run_events
)
