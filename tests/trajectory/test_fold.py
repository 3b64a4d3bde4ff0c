"""A trajectory is its events and nothing else."""

import pytest

from agentrl.errors import StoreError
from agentrl.messages import Message
from agentrl.task import Task
from agentrl.trajectory.events import (
    BatchTrained,
    ContextSet,
    Credited,
    EpisodeOpened,
    EpisodeStopped,
    Observed,
    Replied,
    Valued,
    Verified,
)
from agentrl.trajectory.fold import apply, fold
from agentrl.trajectory.records import Step, TokenSpan, Trajectory, masked, scored

TASK = Task("t/1", "t", "do it")
SAID, SEEN, ASKED = Message("assistant", "x"), Message("tool", "y"), Message("user", "do it")
FIRST = TokenSpan([1, 2], [3], [-0.5], [(0, 4)])
BROKEN = TokenSpan([9], [8], [-0.25], [(0, 5)], continues=False)


def opened(episode: str, at: float = 1.0, group: str = "g") -> EpisodeOpened:
    return EpisodeOpened(episode=episode, group=group, task=TASK, at=at)


def test_everything_that_happened_is_in_the_trajectory() -> None:
    events = [
        EpisodeOpened(episode="e", group="g", task=TASK, parent="p", fork_step=2, at=1.0),
        ContextSet(episode="e", by="env", context=(ASKED,), at=2.0),
        Replied(episode="e", by="agent", reply=SAID, tokens=FIRST, at=3.0),
        Observed(episode="e", seen=(SEEN,), signals={"a": 1.0}, malformed=2, at=4.0),
        ContextSet(episode="e", by="truncate", context=(), at=5.0),
        Replied(episode="e", by="agent", reply=SAID, tokens=BROKEN, at=6.0),
        EpisodeStopped(episode="e", why="done", at=7.0),
        Verified(episode="e", verdict=scored(1.0), reward=0.9, at=8.0),
        Credited(episode="e", by="outcome", advantages=(0.5, 0.5), step=12, at=9.0),
    ]
    assert fold(events) == {
        "e": Trajectory(
            id="e",
            group="g",
            task=TASK,
            opening=(ASKED,),
            steps=(
                Step(0, 0, "agent", SAID, FIRST, (SEEN,), {"a": 1.0}, 2, at=3.0),
                Step(1, 1, "agent", SAID, BROKEN, at=6.0),
            ),
            segments=2,
            stop="done",
            verdict=scored(1.0),
            reward=0.9,
            parent="p",
            fork_step=2,
            advantages=(0.5, 0.5),
            trained_step=12,
            opened_at=1.0,
            stopped_at=7.0,
        )
    }


def test_a_second_opening_starts_afresh_and_goes_last() -> None:
    stop = EpisodeStopped(episode="a", why="error", error="host died", at=3.0)
    found = fold([opened("a"), opened("b", 2.0), stop, opened("a", 4.0, group="h")])
    assert list(found) == ["b", "a"]
    assert found["a"] == Trajectory(id="a", group="h", task=TASK, opened_at=4.0)


def test_events_of_the_run_are_passed_over() -> None:
    assert list(fold([BatchTrained(step=1, groups=("g",)), opened("a")])) == ["a"]


def test_a_later_verdict_corrects_and_unknown_is_not_zero() -> None:
    first = Verified(episode="a", verdict=scored(1.0), reward=1.0)
    later = Verified(episode="a", verdict=masked("disk full"))
    found = fold([opened("a"), first, later])["a"]
    assert found.reward is None
    assert found.verdict == masked("disk full")


def test_crediting_again_does_not_untrain() -> None:
    trained = Credited(episode="a", by="outcome", advantages=(1.0,), step=3)
    again = Credited(episode="a", by="returns", advantages=(0.5,))
    found = fold([opened("a"), trained, again])["a"]
    assert found.advantages == (0.5,)
    assert found.trained_step == 3


def test_only_the_first_context_is_the_opening() -> None:
    reply = Replied(episode="a", by="agent", reply=SAID)
    empty = ContextSet(episode="a", by="env", context=())
    later = ContextSet(episode="a", by="memory", context=(ASKED,))
    assert fold([opened("a"), empty, reply, later])["a"].opening == ()
    assert fold([opened("a"), later, reply, empty])["a"].opening == (ASKED,)


def test_an_event_without_its_opening_is_an_error_that_names_the_episode() -> None:
    with pytest.raises(StoreError, match="episode 'lost' has EpisodeStopped without its opening"):
        fold([opened("a"), EpisodeStopped(episode="lost", why="done")])
    with pytest.raises(StoreError, match="without a reply"):
        apply(apply(None, opened("a")), Observed(episode="a", seen=()))


def test_a_critics_values_belong_to_the_steps_they_were_made_for() -> None:
    events = [
        opened("e"),
        Replied(episode="e", by="agent", reply=SAID, tokens=FIRST),
        Observed(episode="e", seen=(SEEN,), state="f00d"),
        Replied(episode="e", by="agent", reply=SAID),
        Valued(episode="e", by="critic", values=(0.25, None, 0.5), tokens=((0.125,),)),
        Replied(episode="e", by="agent", reply=SAID),
    ]
    steps = fold(events)["e"].steps
    assert [step.value for step in steps] == [0.25, None, None]
    assert [step.values for step in steps] == [(0.125,), (), ()]
    assert [step.state for step in steps] == ["f00d", "", ""]
