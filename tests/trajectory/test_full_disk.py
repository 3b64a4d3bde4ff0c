"""A disk that runs full costs the last event, never the record."""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentrl.errors import RunError
from agentrl.trajectory.events import Event
from agentrl.trajectory.store import RunStore

from .test_store import opened, replied


@contextmanager
def file_size_limit(limit: int) -> Iterator[None]:
    """The kernel lets no file grow beyond `limit` bytes: half a write succeeds, the rest fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("limit", [10, 900, 1_500, 3_000])
def test_a_full_disk_is_told_and_leaves_a_whole_record(tmp_path: Path, limit: int) -> None:
    store = RunStore(tmp_path)
    written: list[Event] = []

    def fill() -> None:
        for number in range(99):
            written.append(store.append(opened(f"e{number}")))
            written.append(store.append(replied(f"e{number}")))

    with file_size_limit(limit), pytest.raises(RunError, match="cannot be written") as caught:
        fill()
    assert caught.value.where.startswith(str(tmp_path))
    assert "make room" in caught.value.help
    reader = RunStore(tmp_path)
    assert list(reader.events()) == written
    assert reader.torn == 0
    with store:
        after = store.append(opened("after", at=3.0))  # there is room again
        last = store.append(replied("after", at=4.0))
    assert list(reader.events())[-2:] == [after, last]
    assert len(list(reader.events())) == len(written) + 2


def test_packing_that_fails_is_told_and_made_up_for(tmp_path: Path) -> None:
    store = RunStore(tmp_path, rotate_bytes=1)
    store.append(opened("a"))
    (tmp_path / "events/main-000001.jsonl.zst.tmp").mkdir()  # where the packed copy goes
    store.append(opened("b"))  # packs the first shard behind our back
    with pytest.raises(RunError, match="cannot be written"):
        store.close()
    (tmp_path / "events/main-000001.jsonl.zst.tmp").rmdir()
    assert list(RunStore(tmp_path).trajectories()) == ["a", "b"]
    with store:
        store.append(opened("c"))  # picks up what was left
    assert list(RunStore(tmp_path).trajectories()) == ["a", "b", "c"]
    assert not list(tmp_path.rglob("*.jsonl"))
