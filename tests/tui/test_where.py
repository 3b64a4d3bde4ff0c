"""One small language says which episodes are meant, and says no to everything else."""

import numpy as np
import pytest

from agentrl.errors import ConfigError
from agentrl.trajectory.index import Entry, columns_of
from agentrl.tui.catalogue import counts, flat_groups, ordered, siblings
from agentrl.tui.where import matching


def entry(episode: str, reward: float | None, **facts: object) -> Entry:
    known: dict[str, object] = {
        "group": episode.split(".")[0], "task": "t", "family": "count", "difficulty": 1,
        "success": reward == 1.0, "stop": "done", "steps": 3, "opened_at": 1.0, "shard": "s",
        "trained_step": None, "stopped_at": 5.0, "outcome": "reward",
    }  # fmt: skip
    return Entry(episode=episode, reward=reward, **(known | facts))  # type: ignore[arg-type]


COLUMNS = columns_of(
    [
        entry("g0.0", 0.0, steps=9, stop="context", advantage=-1.0),
        entry("g0.1", 1.0, advantage=1.0, flags="tests.edited other"),
        entry("g1.0", None, stop=None, stopped_at=0.0, outcome=None),
        entry("g1.1", 0.5, trained_step=7),
        entry("g1.2", 0.5, parent="g1.1", outcome="masked"),
    ]
)


def found(where: str) -> list[str]:
    mask = matching(where, COLUMNS, lambda text: {"g1.0"} if text == "sed -i" else set())
    return list(COLUMNS["episode"][mask])


@pytest.mark.parametrize(
    ("where", "episodes"),
    [
        ("reward<0.5", ["g0.0"]),
        ("reward<=0.5", ["g0.0", "g1.1", "g1.2"]),
        ("reward!=0.5", ["g0.0", "g0.1"]),  # of g1.0 nobody knows
        ("not success", ["g0.0", "g1.0", "g1.1", "g1.2"]),
        ('turns>5 and stop=="context"', ["g0.0"]),
        ('stop!="done"', ["g0.0"]),
        ('flag("tests.edited") or step==7', ["g0.1", "g1.1"]),
        ('flag("tests")', []),
        ('text("sed -i")', ["g1.0"]),
        ("0 < reward < 1", ["g1.1", "g1.2"]),
        ("advantage<-0.5", ["g0.0"]),
        ('"g1" in episode', ["g1.0", "g1.1", "g1.2"]),
        ("seconds==4", ["g0.0", "g0.1", "g1.1", "g1.2"]),
        ("success", ["g0.1"]),
    ],
)
def test_a_filter_finds(where: str, episodes: list[str]) -> None:
    assert found(where) == episodes


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("rewrad<1", "no episode has a 'rewrad'"),
        ("reward<", "cannot be read"),
        ("__import__('os').system('x')", "not something a filter can say"),
        ("reward.real", "not something a filter can say"),
        ("[e for e in episode]", "not something a filter can say"),
        ('reward<"x"', "a number beside 'x'"),
        ("open('x')", "not something a filter can say"),
    ],
)
def test_what_is_not_in_the_language_is_refused(where: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said.replace("(", "\\(").replace(")", "\\)")):
        found(where)


def names(**how: object) -> list[str]:
    return list(COLUMNS["episode"][ordered(COLUMNS, **how)])  # type: ignore[arg-type]


def test_the_best_and_the_worst_come_first_as_asked_and_the_unknown_always_last() -> None:
    assert names(sort="reward") == ["g0.0", "g1.1", "g1.2", "g0.1", "g1.0"]
    assert names(sort="reward", falling=True) == ["g0.1", "g1.2", "g1.1", "g0.0", "g1.0"]
    assert names(sort="advantage", falling=True)[:2] == ["g0.1", "g0.0"]


def test_groups_stand_together_in_the_order_of_their_first() -> None:
    assert names(sort="reward", group="group") == ["g0.0", "g0.1", "g1.1", "g1.2", "g1.0"]
    assert names(group="step") == ["g0.0", "g0.1", "g1.0", "g1.2", "g1.1"]


def test_a_filter_and_an_order_go_together() -> None:
    assert names(sort="reward", falling=True, where="reward<1") == ["g1.2", "g1.1", "g0.0"]


def test_what_is_counted_and_who_are_siblings() -> None:
    assert counts(COLUMNS, np.arange(5)) == {
        "episodes": 5, "groups": 2, "solved": 1, "masked": 1, "playing": 1,
    }  # fmt: skip
    assert siblings(COLUMNS, 3) == [2, 3]  # the branch g1.2 is none
    assert flat_groups(COLUMNS) == {"g1"}
