"""A look-up beside the record: one row an episode. Only a cache: delete it and it comes back."""

import json
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct
from msgspec.structs import astuple, replace

from agentrl.errors import StoreError
from agentrl.trajectory.events import (
    Credited,
    EpisodeHappening,
    EpisodeOpened,
    EpisodeStopped,
    Observed,
    Replied,
    Verified,
)
from agentrl.trajectory.reading import CLOSED, FOLDER, OPEN, Cursor, Placed, merged
from agentrl.trajectory.shards import listing, split

NAME = "index.parquet"
_SEEN, _READ = b"agentrl.shards", b"agentrl.read"


class Entry(Struct, frozen=True):
    """What is looked up of one episode.

    `shard` is the stem of the shard that opens it, `shards` those of all that hold something of
    it; `flags` those of its verdict (both separated by blanks). `advantage` is the mean over its
    steps, as last credited. Times are the host's clock, 0 where nothing has been stopped yet.
    """

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
    stopped_at: float = 0.0
    outcome: str | None = None
    advantage: float | None = None
    malformed: int = 0
    flags: str = ""
    parent: str | None = None
    fork_step: int | None = None
    shards: str = ""


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
        ("stopped_at", pa.float64()),
        ("outcome", pa.string()),
        ("advantage", pa.float64()),
        ("malformed", pa.int32()),
        ("flags", pa.string()),
        ("parent", pa.string()),
        ("fork_step", pa.int32()),
        ("shards", pa.string()),
    ]
)
_UNKNOWN = ("reward", "trained_step", "advantage", "fork_step")  # None is NaN in an array


class Index:
    """The entries of a run that may still be written, as one array a column.

    `gather` reads what came since the last look and may run in another thread; `commit` puts it
    into `columns`. Making one reads `index.parquet`, and nothing else, where that is still true of
    the shards (which only grow); what it lacks is gathered from where it ends. Object columns hold
    str or None, number columns have NaN for what is not known.

    Attributes:
        columns: name of an `Entry` field -> array, one place an episode, in order of opening.
        headless: events left out because no shard holds the opening of their episode.
        read: events read by this object, for a progress line.
    """

    def __init__(self, root: Path, *, anew: bool = False) -> None:
        self.root = root
        self.columns = _arrays(_COLUMNS.empty_table())
        self.headless = 0
        self.read = 0
        self._rows: dict[str, int] = {}
        self._cursors: dict[str, Cursor] = {}
        self._pending: dict[str, deque[Placed]] = {}
        self._stuck: set[tuple[str, str, float]] = set()
        self._opened: set[str] = set()
        self._sizes: dict[str, int] | None = None
        self._changed: dict[str, Entry] = {}
        if not anew:
            self._take_up()

    def __len__(self) -> int:
        return len(self.columns["episode"])

    @property
    def current(self) -> bool:
        """Whether nothing has been written since the last gathering."""
        return self._sizes == shard_sizes(self.root) and not any(self._pending.values())

    def place(self, episode: str) -> int | None:
        """Where an episode stands in the columns."""
        return self._rows.get(episode)

    def entry(self, row: int) -> Entry:
        return Entry(**{name: _plain(name, column[row]) for name, column in self.columns.items()})

    def gather(self) -> dict[str, Entry]:
        """Entries that are new or changed, in order of opening; nothing where all is known."""
        if self.current:
            return {}
        self._sizes = shard_sizes(self.root)  # before reading: what comes meanwhile makes it old
        try:
            for stem, event in self._news():
                self.read += 1
                if isinstance(event, EpisodeHappening):
                    self._happened(stem, event)
        except BaseException:
            self._sizes = None  # what was found so far is kept for the next look
            raise
        changed, self._changed = self._changed, {}
        return changed

    def _happened(self, stem: str, event: EpisodeHappening) -> None:
        before = self._before(self._changed, event)
        if before is None and not isinstance(event, EpisodeOpened):
            self.headless += 1
        else:
            self._changed[event.episode] = advance(before, event, stem)

    def _before(self, changed: dict[str, Entry], event: EpisodeHappening) -> Entry | None:
        if isinstance(event, EpisodeOpened):
            changed.pop(event.episode, None)  # it counts from here, and stands at the end
            return None
        known = changed.get(event.episode)
        row = self._rows.get(event.episode)
        return self.entry(row) if known is None and row is not None else known

    def commit(self, changed: dict[str, Entry]) -> None:
        """Take up what was gathered. An episode that was opened again moves to the end."""
        again = [
            self._rows[entry.episode]
            for entry in changed.values()
            if entry.episode in self._rows
            and entry.opened_at != self.columns["opened_at"][self._rows[entry.episode]]
        ]
        if again:
            self.columns = {name: np.delete(old, again) for name, old in self.columns.items()}
            self._number()
        fresh = [entry for entry in changed.values() if entry.episode not in self._rows]
        for entry in changed.values():
            row = self._rows.get(entry.episode)
            if row is not None:
                for name, value in zip(self.columns, astuple(entry), strict=True):
                    self.columns[name][row] = (
                        np.nan if value is None and name in _UNKNOWN else value
                    )
        if fresh:
            fresh.sort(key=lambda entry: entry.opened_at)
            added = columns_of(fresh)
            self.columns = {
                name: np.concatenate([old, added[name]]) for name, old in self.columns.items()
            }
            self._number()

    def settle(self) -> bool:
        """Gather and commit until no event waits for an opening; whether anything was read."""
        before = self.read
        self.commit(self.gather())
        while any(self._pending.values()):
            self.commit(self.gather())
        return self.read > before

    def save(self) -> None:
        """Write `index.parquet`, unless events still wait for their episode's opening."""
        if any(self._pending.values()) or self._sizes is None:
            return
        read = {stem: [c.offset, c.line, int(c.ended)] for stem, c in self._cursors.items()}
        notes = {_SEEN: json.dumps(self._sizes).encode(), _READ: json.dumps(read).encode()}
        table = pa.table(
            {
                name: pa.array(self.columns[name], _COLUMNS.field(name).type, from_pandas=True)
                for name in _COLUMNS.names
            },
            schema=_COLUMNS.with_metadata(notes),
        )
        part = self.root / f"{NAME}.{os.getpid()}.tmp"
        try:
            pq.write_table(table, part, compression="zstd")
            part.replace(self.root / NAME)
        finally:
            part.unlink(missing_ok=True)

    def _take_up(self) -> None:
        """What `index.parquet` knows, where it fits the shards there are."""
        try:
            table = pq.read_table(self.root / NAME, use_threads=False)
            notes = table.schema.metadata or {}
            sizes = json.loads(notes.get(_SEEN, b"null"))
            read = json.loads(notes.get(_READ, b"null"))
        except (FileNotFoundError, pa.ArrowInvalid, ValueError):
            return
        if table.schema.names != _COLUMNS.names or sizes is None or read is None:
            return
        if not _grown(sizes, shard_sizes(self.root)):
            return
        self.columns = _arrays(table)
        self._number()
        self._opened = set(self._rows)
        self._sizes = sizes
        for stem, (offset, line, ended) in read.items():
            cursor = self._cursors[stem] = Cursor(self.root, stem)
            cursor.offset, cursor.line, cursor.ended = offset, line, bool(ended)

    def _number(self) -> None:
        self._rows = {episode: row for row, episode in enumerate(self.columns["episode"])}

    def _news(self) -> Iterator[Placed]:
        """What is new in all shards, merged; what still waits for an opening is kept back once."""
        writers: dict[str, list[str]] = {}
        for stem in listing(self.root / FOLDER, OPEN, CLOSED):
            named = split(stem)
            if named is not None:
                writers.setdefault(named[0], []).append(stem)
        streams = {writer: self._stream(writer, stems) for writer, stems in writers.items()}
        waited, self._stuck = self._stuck, set()
        heads = yield from merged(streams, self._opened)
        while heads:
            rest: dict[str, Iterator[Placed]] = {}
            for writer, placed in heads:
                mark = (writer, getattr(placed[1], "episode", ""), placed[1].at)
                if mark in waited:  # through two looks: its opening is lost, let it pass
                    self._opened.add(mark[1])
                    rest[writer] = chain([placed], streams[writer])
                else:
                    self._stuck.add(mark)
                    self._pending.setdefault(writer, deque()).append(placed)
            streams = rest
            heads = yield from merged(streams, self._opened)

    def _stream(self, writer: str, stems: Iterable[str]) -> Iterator[Placed]:
        queue = self._pending.get(writer, deque())
        while queue:
            yield queue.popleft()
        for stem in stems:
            cursor = self._cursors.setdefault(stem, Cursor(self.root, stem))
            if not cursor.ended:
                yield from ((stem, event) for event in cursor.events())


def build(root: Path) -> list[Entry]:
    """Read the whole record (words and tokens left aside) and write `index.parquet` anew."""
    index = Index(root, anew=True)
    index.settle()
    entries = _entries(index)
    index.save()
    return entries


def load(root: Path) -> list[Entry]:
    """The index, in order of opening; what is missing of it is read and written first.

    Where it cannot be written (a run on a read-only disk) it is still returned. Raises
    `StoreError` where an episode has events but no opening.
    """
    index = Index(root)
    news = index.settle()
    entries = _entries(index)
    if (news or not (root / NAME).exists()) and os.access(root, os.W_OK):
        index.save()
    return entries


def advance(before: Entry | None, event: EpisodeHappening, shard: str) -> Entry:
    """The entry after `event`, which lies in `shard`; `before` is None only for an opening."""
    if isinstance(event, EpisodeOpened):
        task = event.task
        return Entry(
            event.episode, shard, event.group, task.id, task.family, task.difficulty,
            None, False, None, 0, event.at, None,
            parent=event.parent, fork_step=event.fork_step, shards=shard,
        )  # fmt: skip
    if before is None:
        raise _lost(event.episode)
    known = before.shards.split(" ")
    entry = before if shard in known else replace(before, shards=" ".join([*known, shard]))
    match event:
        case Replied():
            return replace(entry, steps=entry.steps + 1)
        case Observed():
            return replace(entry, malformed=entry.malformed + event.malformed)
        case EpisodeStopped():
            return replace(entry, stop=event.why, stopped_at=event.at)
        case Verified(verdict=verdict):
            return replace(
                entry,
                reward=event.reward,
                success=verdict.success,
                outcome=verdict.outcome,
                flags=" ".join(verdict.flags),
            )
        case Credited():
            step = entry.trained_step if event.step is None else event.step
            mean = fmean(event.advantages) if event.advantages else None
            return replace(entry, advantage=mean, trained_step=step)
    return entry


def shard_sizes(root: Path) -> dict[str, int]:
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


def _grown(before: dict[str, int], now: dict[str, int]) -> bool:
    """Whether shards of these sizes can have become those by writing alone."""
    return all(
        now.get(name) == size
        if name.endswith(CLOSED)
        else now.get(name, -1) >= size or name.removesuffix(OPEN) + CLOSED in now
        for name, size in before.items()
    )


def _entries(index: Index) -> list[Entry]:
    if index.headless:
        raise _lost("")
    columns = [[_plain(n, value) for value in column] for n, column in index.columns.items()]
    return [Entry(*row) for row in zip(*columns, strict=True)]


def _lost(episode: str) -> StoreError:
    return StoreError(
        f"events of episode {episode!r} have no opening before them"
        if episode
        else "some events belong to episodes whose opening is nowhere",
        help="one shard of this run is missing or was cut: restore it",
    )


def columns_of(entries: Sequence[Entry]) -> dict[str, Any]:
    """Entries as `Index.columns` has them."""
    columns = {name: [getattr(entry, name) for entry in entries] for name in _COLUMNS.names}
    return _arrays(pa.table(columns, schema=_COLUMNS))


def _arrays(table: Any) -> dict[str, Any]:
    """Columns as arrays that can be written to."""
    out: dict[str, Any] = {}
    for field in _COLUMNS:
        array = table.column(field.name).to_numpy()
        if field.name in _UNKNOWN:
            array = array.astype(np.float64)
        elif pa.types.is_string(field.type):
            array = array.astype(object)
        out[field.name] = array if array.flags.writeable else array.copy()
    return out


def _plain(name: str, value: Any) -> Any:
    """One place of a column as the entry holds it."""
    if name in _UNKNOWN:
        known = not np.isnan(value)
        return None if not known else int(value) if name.endswith("_step") else float(value)
    return value.item() if isinstance(value, np.generic) else value
