"""The index says what the record says, and comes back when it is gone."""

import os
from pathlib import Path

import pytest

from agentrl.errors import StoreError
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


def episodes_of(found: index.Index) -> list[index.Entry]:
    return [found.entry(row) for row in range(len(found))]


def test_an_index_grows_with_the_run_and_reads_only_what_is_new(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        write(store)
        index.load(tmp_path)
        store.append(EpisodeStopped(episode="b", why="steps", at=8.0))
        store.append(EpisodeOpened(episode="c", group="h", task=TASK, parent="a", fork_step=2,
                                   at=9.0))  # fmt: skip
        found = index.Index(tmp_path)
        assert episodes_of(found) == [A, B]  # as of the file, before anything is read
        changed = found.gather()
        assert list(changed) == ["b", "c"]
        assert found.read == 2
        found.commit(changed)
        assert found.current
        assert found.gather() == {}
        store.append(Verified(episode="c", verdict=scored(0.5), reward=0.5, at=10.0))
    found.commit(found.gather())  # from the shard that was packed meanwhile
    assert found.read == 3
    assert episodes_of(found) == index.build(tmp_path)
    assert found.place("c") == 2
    last = found.entry(2)
    assert (last.parent, last.fork_step, last.reward, last.stop) == ("a", 2, 0.5, None)


def test_an_episode_opened_again_counts_from_there_and_stands_at_the_end(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        write(store)
        found = index.Index(tmp_path)
        found.settle()
        store.append(EpisodeOpened(episode="a", group="g", task=TASK, at=20.0))
        found.settle()
        assert [entry.episode for entry in episodes_of(found)] == ["b", "a"]
        assert (found.entry(1).steps, found.entry(1).reward) == (0, None)


def test_an_event_without_an_opening_waits_once_and_is_then_counted(tmp_path: Path) -> None:
    with RunStore(tmp_path, writer="a-trainer") as trainer:
        trainer.append(Credited(episode="x", by="outcome", advantages=(0.5,), step=3, at=2.0))
        found = index.Index(tmp_path)
        found.commit(found.gather())
        assert not found.current
        with RunStore(tmp_path, writer="b-worker") as worker:
            worker.append(EpisodeOpened(episode="x", group="g", task=TASK, at=3.0))
        found.settle()
        assert found.entry(0).trained_step == 3
        assert found.headless == 0
        trainer.append(Credited(episode="lost", by="outcome", advantages=(), at=4.0))
        found.settle()
        assert found.headless == 1
        assert found.current
    with pytest.raises(StoreError, match="opening is nowhere"):
        index.load(tmp_path)


def test_an_index_of_shards_that_were_replaced_is_not_believed(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        write(store)
    index.load(tmp_path)
    (shard,) = (tmp_path / "events").iterdir()
    shard.unlink()
    with RunStore(tmp_path) as store:
        store.append(EpisodeOpened(episode="z", group="g", task=TASK, at=1.0))
    assert [entry.episode for entry in index.load(tmp_path)] == ["z"]
