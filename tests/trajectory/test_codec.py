"""What is written is what is read."""

import math

import pytest
from hypothesis import given, settings

from agentrl.errors import EpisodeError, RunError
from agentrl.messages import Message, ToolCall
from agentrl.trajectory.codec import decode, encode, readable
from agentrl.trajectory.events import BatchTrained, Event, Observed, Replied, Verified
from agentrl.trajectory.records import Verdict

from .strategies import any_event


@settings(deadline=None, max_examples=60)
@given(any_event)
def test_every_event_reads_back_as_it_was_written(event: Event) -> None:
    line = encode(event)
    assert decode(line) == event
    assert b"\n" not in line


@settings(deadline=None, max_examples=60)
@given(any_event)
def test_a_sound_event_is_kept_as_it_is(event: Event) -> None:
    kept, line = readable(event)
    assert kept is event
    assert line == encode(event)


def test_half_a_character_is_replaced_not_refused() -> None:
    event = Observed(episode="e", seen=(Message("tool", "a\udc80b"),), at=1.0)
    kept, line = readable(event)
    assert kept == Observed(episode="e", seen=(Message("tool", "a\ufffdb"),), at=1.0)
    assert decode(line) == kept


def test_arguments_that_json_changes_are_known_as_they_will_be_read() -> None:
    call = ToolCall("1", "shell", {"pair": (1, 2), "nan": math.nan})
    kept, line = readable(Replied(episode="e", by="agent", reply=Message("assistant", "", (call,))))
    assert isinstance(kept, Replied)
    assert kept.reply.calls[0].arguments == {"pair": [1, 2], "nan": None}
    assert decode(line) == kept


def test_a_number_that_cannot_be_stored_is_refused_by_name() -> None:
    with pytest.raises(EpisodeError, match="Observed cannot be recorded"):
        readable(Observed(episode="e", seen=(), signals={"x": math.inf}))
    with pytest.raises(EpisodeError, match="a score that is not a number"):
        readable(Verified(episode="e", verdict=Verdict("reward", 1.0), reward=math.nan))
    with pytest.raises(RunError, match="BatchTrained cannot be recorded"):
        readable(BatchTrained(step=1, groups=(), stats={"loss": math.nan}))
