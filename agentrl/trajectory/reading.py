"""Reading event shards: line by line wherever they stand, and merged over all writers."""

import heapq
import io
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import msgspec
import zstandard

from agentrl.errors import StoreError
from agentrl.trajectory.codec import decode
from agentrl.trajectory.events import EpisodeHappening, EpisodeOpened, Event

FOLDER = "events"
OPEN, CLOSED = ".jsonl", ".jsonl.zst"

Placed = tuple[str, Event]
"""An event and the stem of the shard it lies in."""


class Cursor:
    """How far one shard has been read, in bytes and lines, whichever form it has by then."""

    def __init__(self, root: Path, stem: str) -> None:
        self._base = root / FOLDER / stem
        self.stem = stem
        self.offset = 0
        self.line = 0
        self.torn = False  # the last look found a line without its end
        self.ended = False  # packed and read to its end: nothing will follow

    def events(self, needle: bytes = b"") -> Iterator[Event]:
        """Those after the cursor; only of lines that contain `needle`."""
        for line in self._lines():
            if needle in line:
                try:
                    event = decode(line)
                except msgspec.DecodeError as error:
                    raise self._bad_line(error) from error
                yield event

    def _lines(self) -> Iterator[bytes]:
        self.torn = False
        with self._open() as (file, total):
            try:
                for line in file:
                    if not line.endswith(b"\n"):
                        self.torn = True
                        break
                    self.offset += len(line)
                    self.line += 1
                    yield line
            except zstandard.ZstdError as error:
                raise self._damaged(str(error)) from error
            if total is not None:
                if self.offset != total:
                    raise self._damaged(f"it holds {self.offset} of {total} bytes")
                self.ended = True

    @contextmanager
    def _open(self) -> Iterator[tuple[BinaryIO, int | None]]:
        """The shard from the cursor on; its whole length in bytes if it is packed."""
        try:
            plain = self._path(OPEN).open("rb")
        except FileNotFoundError:
            pass
        else:
            with plain:
                plain.seek(self.offset)
                yield plain, None
            return
        try:
            packed = self._path(CLOSED).open("rb")
        except FileNotFoundError as error:
            raise self._damaged("it is gone") from error
        with packed:
            try:
                total = zstandard.get_frame_parameters(packed.read(32)).content_size
                if total == self.offset:  # known to the end already: spare the unpacking
                    yield io.BytesIO(), total
                    return
                packed.seek(0)
                stream = zstandard.ZstdDecompressor().stream_reader(packed)
                file = io.BufferedReader(cast(io.RawIOBase, stream), 1 << 18)
                left = self.offset
                while left and (skipped := len(file.read(min(left, 1 << 20)))):
                    left -= skipped
            except zstandard.ZstdError as error:
                raise self._damaged(str(error)) from error
            yield cast(BinaryIO, file), total

    def _path(self, suffix: str) -> Path:
        return self._base.with_name(self.stem + suffix)

    def _bad_line(self, error: Exception) -> StoreError:
        path = self._path(OPEN)
        number = self.line
        if path.exists():
            way = f"sed -i '{number}d' {path}"
        else:
            path = self._path(CLOSED)
            way = f"zstd -dc {path} | sed '{number}d' > {self._path(OPEN)} && rm {path}"
        return StoreError(
            f"line {number} is not an event: {error}",
            where=f"{path}:{number}",
            help=f"if a newer agentrl wrote it, read it with that one; else drop the line: {way}",
        )

    def _damaged(self, how: str) -> StoreError:
        return StoreError(
            f"an event shard cannot be read: {how}",
            where=str(self._path(CLOSED)),
            help="restore that file from a copy, or move it away to go on without its events",
        )


def merged(
    streams: Mapping[str, Iterator[Placed]], opened: set[str]
) -> Generator[Placed, None, list[tuple[str, Placed]]]:
    """All streams in one, by time; each stays in its own order, ties go by the streams' order.

    A stream whose next event is of an episode not in `opened` waits for that episode's opening,
    because clocks are set back and writers are read at different moments. `opened` is kept up to
    date. Returns the heads of the streams that still wait when nothing else is left.
    """
    order = {writer: rank for rank, writer in enumerate(streams)}
    heap: list[tuple[float, int, str, Placed]] = []
    waiting: dict[str, list[tuple[float, int, str, Placed]]] = {}

    def pull(writer: str) -> None:
        placed = next(streams[writer], None)
        if placed is not None:
            heapq.heappush(heap, (placed[1].at, order[writer], writer, placed))

    for writer in streams:
        pull(writer)
    while heap:
        head = heapq.heappop(heap)
        writer, event = head[2], head[3][1]
        if isinstance(event, EpisodeOpened):
            opened.add(event.episode)
            for waiter in waiting.pop(event.episode, ()):
                heapq.heappush(heap, waiter)
        elif isinstance(event, EpisodeHappening) and event.episode not in opened:
            waiting.setdefault(event.episode, []).append(head)
            continue
        yield head[3]
        pull(writer)
    return [(writer, placed) for heads in waiting.values() for _, _, writer, placed in heads]
