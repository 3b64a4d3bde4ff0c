"""A look-up beside the record: one row an episode. Only a cache: delete it and it comes back."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct
from msgspec.structs import replace

from agentrl.messages import Message
from agentrl.trajectory.events import (
    ContextSet,
    Credited,
    EpisodeEvent,
    EpisodeOpened,
    EpisodeStopped,
    Event,
    Observed,
    Replied,
    Verified,
)
from agentrl.trajectory.fold import apply
from agentrl.trajectory.reading import CLOSED, FOLDER, OPEN
from agentrl.trajectory.records import Trajectory
from agentrl.trajectory.store import RunStore

NAME = "index.parquet"
_SEEN = b"agentrl.shards"
_COLUMNS = pa.schema(
    [
        ("episode", pa.string()),
        ("shard", pa.string()),
        ("group", pa.string()),
        ("task", pa.string()),
        ("family", pa.string()),
        ("difficulty", pa.int32()),
        ("reward", pa.float64()),
        ("success", pa.bool_()),
        ("stop", pa.string()),
        ("steps", pa.int32()),
        ("opened_at", pa.float64()),
        ("trained_step", pa.int64()),
    ]
)


class Entry(Struct, frozen=True):
    """What is looked up of one episode. `shard` is the stem of the shard that opens it."""

    episode: str
    shard: str
    group: str
    task: str
    family: str
    difficulty: int
    reward: float | None
    success: bool
    stop: str | None
    steps: int
    opened_at: float
    trained_step: int | None


def build(root: Path) -> list[Entry]:
    """Read the whole record (words and tokens left aside) and write `index.parquet` anew."""
    entries, seen = _read(root)
    _write(root, entries, seen)
    return entries


def load(root: Path) -> list[Entry]:
    """The index, in order of opening; built first where it is missing, older or unreadable.

    Where it cannot be written (a run on a read-only disk) it is still returned.
    """
    path = root / NAME
    try:
        table = pq.read_table(path, use_threads=False)
        current = json.loads((table.schema.metadata or {}).get(_SEEN, b"null"))
        if current == _shards(root) and table.schema.names == _COLUMNS.names:
            return [Entry(**row) for row in table.to_pylist()]
    except (FileNotFoundError, pa.ArrowInvalid, ValueError):
        pass  # built below
    entries, seen = _read(root)
    if os.access(root, os.W_OK):
        _write(root, entries, seen)
    return entries


def _read(root: Path) -> tuple[list[Entry], dict[str, int]]:
    seen = _shards(root)  # before reading, so that what comes meanwhile makes the index old
    states: dict[str, tuple[str, Trajectory]] = {}
    for stem, event in _slim(RunStore(root).placed(tokens=False)):
        if isinstance(event, EpisodeOpened):
            states.pop(event.episode, None)
        shard, before = states.get(event.episode, (stem, None))
        states[event.episode] = (shard, apply(before, event))
    return [_entry(shard, trajectory) for shard, trajectory in states.values()], seen


def _slim(placed: Iterator[tuple[str, Event]]) -> Iterator[tuple[str, EpisodeEvent]]:
    """Episode events without what an index never holds, so that any run fits into memory."""
    for stem, event in placed:
        match event:
            case ContextSet():
                continue
            case EpisodeOpened():
                task = replace(event.task, instruction="", files={}, tests={}, oracle=())
                yield stem, replace(event, task=task)
            case Replied():
                yield stem, replace(event, reply=Message("assistant", ""))
            case Observed():
                yield stem, replace(event, seen=(), signals={}, state="")
            case EpisodeStopped() | Verified() | Credited():
                yield stem, event
            case _:
                continue


def _entry(shard: str, trajectory: Trajectory) -> Entry:
    task = trajectory.task
    return Entry(
        episode=trajectory.id,
        shard=shard,
        group=trajectory.group,
        task=task.id,
        family=task.family,
        difficulty=task.difficulty,
        reward=trajectory.reward,
        success=trajectory.success,
        stop=trajectory.stop,
        steps=len(trajectory.steps),
        opened_at=trajectory.opened_at,
        trained_step=trajectory.trained_step,
    )


def _shards(root: Path) -> dict[str, int]:
    """Size in bytes of every event shard; append-only files of equal size are equal."""
    folder = root / FOLDER
    sizes: dict[str, int] = {}
    for name in os.listdir(folder) if folder.is_dir() else ():
        if name.endswith((OPEN, CLOSED)):
            try:
                sizes[name] = (folder / name).stat().st_size
            except FileNotFoundError:
                continue  # packed this moment: its new name makes the index old
    return sizes


def _write(root: Path, entries: list[Entry], seen: dict[str, int]) -> None:
    columns = {name: [getattr(entry, name) for entry in entries] for name in _COLUMNS.names}
    schema = _COLUMNS.with_metadata({_SEEN: json.dumps(seen).encode()})
    part = root / f"{NAME}.{os.getpid()}.tmp"
    try:
        pq.write_table(pa.table(columns, schema=schema), part, compression="zstd")
        part.replace(root / NAME)
    finally:
        part.unlink(missing_ok=True)
