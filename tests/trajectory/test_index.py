"""The index says what the record says, and comes back when it is gone."""

import os
from pathlib import Path

import pytest

from agentrl.messages import Message
from agentrl.task import Task
from agentrl.trajectory import index
from agentrl.trajectory.events import (
    ContextSet,
    Credited,
    EpisodeOpened,
    EpisodeStopped,
    Observed,
    Replied,
    RunStarted,
    Verified,
)
from agentrl.trajectory.records import TokenSpan, scored
from agentrl.trajectory.store import RunStore

TASK = Task("t/count/3/7", "t", "count", {"a": b"1"}, meta={"family": "count", "difficulty": 3})
SPAN = TokenSpan([1], [2], [-1.0], [(0, 0)])


def write(store: RunStore) -> None:
    said = Message("assistant", "x")
    store.append(RunStarted(run="r", attempt=1, step=0, at=0.0))
    store.append(EpisodeOpened(episode="a", group="g", task=TASK, at=1.0))
    store.append(ContextSet(episode="a", by="env", context=(said,), at=1.5))
    store.append(Replied(episode="a", by="agent", reply=said, tokens=SPAN, at=2.0))
    store.append(Observed(episode="a", seen=(said,), at=2.5))
    store.append(EpisodeStopped(episode="a", why="done", at=3.0))
    store.append(Verified(episode="a", verdict=scored(1.0), reward=0.9, at=4.0))
    store.append(Credited(episode="a", by="outcome", advantages=(1.0,), step=4, at=5.0))
    store.append(EpisodeOpened(episode="b", group="g", task=TASK, at=6.0))


A = index.Entry(
    "a",
    "main-000001",
    "g",
    TASK.id,
    "count",
    3,
    0.9,
    True,
    "done",
    1,
    opened_at=1.0,
    trained_step=4,
    stopped_at=3.0,
    outcome="reward",
    advantage=1.0,
    shards="main-000001",
)
B = index.Entry(
    "b",
    "main-000001",
    "g",
    TASK.id,
    "count",
    3,
    None,
    False,
    None,
    0,
    opened_at=6.0,
    trained_step=None,
    shards="main-000001",
)


def test_an_entry_holds_what_the_trajectory_holds(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        write(store)
        assert index.build(tmp_path) == [A, B]
        assert index.load(tmp_path) == [A, B]


def test_an_index_that_is_missing_old_or_broken_is_built_again(tmp_path: Path) -> None:
    path = tmp_path / index.NAME
    with RunStore(tmp_path) as store:
        write(store)
        index.load(tmp_path)
        path.unlink()
        assert index.load(tmp_path) == [A, B]
        assert path.exists()
        path.write_bytes(b"PAR1 and then nothing")
        assert index.load(tmp_path) == [A, B]
        before = path.stat()
        store.append(EpisodeOpened(episode="c", group="h", task=TASK, at=7.0))
        os.utime(path, (before.st_mtime + 99, before.st_mtime + 99))
        assert [entry.episode for entry in index.load(tmp_path)] == ["a", "b", "c"]


def test_an_index_that_is_current_is_not_built_again(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        write(store)
    index.load(tmp_path)
    before = (tmp_path / index.NAME).stat().st_mtime_ns
    assert index.load(tmp_path) == [A, B]
    assert (tmp_path / index.NAME).stat().st_mtime_ns == before
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize("rotate", [1, 1_000])
def test_the_shard_named_opens_the_episode(tmp_path: Path, rotate: int) -> None:
    with RunStore(tmp_path, rotate_bytes=rotate) as store:
        for number in range(8):
            store.append(EpisodeOpened(episode=f"e{number}", group="g", task=TASK, at=number))
    entries = index.load(tmp_path)
    where = {
        event.episode: stem
        for stem, event in RunStore(tmp_path).placed(tokens=False)
        if isinstance(event, EpisodeOpened)
    }
    assert {entry.episode: entry.shard for entry in entries} == where
    assert len(set(where.values())) > 1


def test_a_run_without_events_has_an_empty_index(tmp_path: Path) -> None:
    assert index.load(tmp_path) == []
    assert index.load(tmp_path) == []
