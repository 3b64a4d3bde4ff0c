"""Token columns beside the events, referenced by (shard, row).

An open shard is an Arrow IPC stream, one record batch a row, so that a killed process loses at
most the row it was writing; a closed one is parquet. Readers take either, and the change between.
"""

from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from agentrl.errors import StoreError
from agentrl.trajectory.records import TokenSpan
from agentrl.trajectory.shards import Series

FOLDER = "tokens"
OPEN, CLOSED = ".arrows", ".parquet"
_IDS, _REALS = pa.list_(pa.int32()), pa.list_(pa.float32())
_LISTS = {  # in the order of `_record`
    "context": _IDS,
    "sampled": _IDS,
    "logprobs": _REALS,
    "version_offsets": _IDS,
    "versions": _IDS,
}
COLUMNS = pa.schema(
    [*_LISTS.items(), ("continues", pa.bool_()), ("cached", pa.int32())],
    metadata={"agentrl.tokens": "1"},
)
_ROWS_A_GROUP = 1024  # what one look-up in a closed shard has to decode


def rounded(span: TokenSpan) -> TokenSpan:
    """The span as it will be read back: log-probabilities in 32 bits."""
    versions = [(offset, version) for offset, version in span.versions]
    return replace(span, logprobs=array("f", span.logprobs).tolist(), versions=versions)


class TokenShard:
    """One writer's pen for token rows; `later` packs full shards when there is time."""

    def __init__(
        self,
        root: Path,
        writer: str,
        *,
        rotate_bytes: int,
        later: Callable[[Callable[[], None]], None],
    ) -> None:
        self._rotate_bytes = rotate_bytes
        self._row = 0
        self._series = Series(
            root / FOLDER,
            writer,
            plain=OPEN,
            packed=CLOSED,
            pack=_to_parquet,
            later=later,
            header=COLUMNS.serialize().to_pybytes(),
        )

    def append(self, span: TokenSpan) -> tuple[str, int]:
        """Write a row that survives this process, and say where it lies."""
        record = _record(span)
        if self._row and self._series.size + len(record) > self._rotate_bytes:
            self._series.rotate()
            self._row = 0
        self._series.write(record)
        self._row += 1
        return self._series.stem, self._row - 1

    def close(self) -> None:
        self._series.close()
        self._row = 0


class TokenReader:
    """Looks rows up; keeps the `keep` shards used last. Not thread-safe: make one a reader."""

    def __init__(self, root: Path, keep: int = 8) -> None:
        self._folder, self._keep = root / FOLDER, keep
        self._shards: OrderedDict[str, _Shard] = OrderedDict()

    def span(self, shard: str, row: int) -> TokenSpan:
        """The row, or `StoreError` if it is not (or no longer) there."""
        known = self._shards.get(shard)
        span = known.span(row) if known is not None else None
        if span is None:  # not looked at yet, or packed since
            for opened in (_OpenShard, _ClosedShard):
                try:
                    known = opened(self._folder / shard)
                except FileNotFoundError:
                    continue
                span = known.span(row)
                if span is not None:
                    break
        if known is None or span is None:
            raise StoreError(
                f"the tokens of row {row} are missing",
                where=str(self._folder / shard),
                help="restore that file, or read the words alone: events(tokens=False)",
            )
        self._shards[shard] = known
        self._shards.move_to_end(shard)
        while len(self._shards) > self._keep:
            self._shards.popitem(last=False)
        return span


class _Shard(Protocol):
    def span(self, row: int) -> TokenSpan | None: ...


class _OpenShard:
    """A stream that may still grow; what was read once is not read again."""

    def __init__(self, stem: Path) -> None:
        self._path = stem.with_name(stem.name + OPEN)
        self._read = 0
        self._rows = 0
        self._firsts: list[int] = []
        self._blocks: list[_Block] = []
        self._grow()

    def span(self, row: int) -> TokenSpan | None:
        if row >= self._rows:
            try:
                self._grow()
            except FileNotFoundError:
                return None
        if not 0 <= row < self._rows:
            return None
        at = bisect_right(self._firsts, row) - 1
        return self._blocks[at].span(row - self._firsts[at])

    def _grow(self) -> None:
        batches, self._read = _batches(self._path, self._read)
        if batches:
            block = _Block(pa.Table.from_batches(batches))
            self._firsts.append(self._rows)
            self._blocks.append(block)
            self._rows += block.rows


class _ClosedShard:
    """A parquet file, decoded a row group at a time; the last two are kept."""

    def __init__(self, stem: Path) -> None:
        path = stem.with_name(stem.name + CLOSED)
        if not path.exists():
            raise FileNotFoundError(path)
        self._path = path
        try:
            with pq.ParquetFile(path) as file:
                groups = range(file.metadata.num_row_groups)
                sizes = [file.metadata.row_group(group).num_rows for group in groups]
        except pa.ArrowInvalid as error:
            raise _damaged(path, error) from error
        self._firsts = [sum(sizes[:group]) for group in range(len(sizes))]
        self._rows = sum(sizes)
        self._blocks: OrderedDict[int, _Block] = OrderedDict()

    def span(self, row: int) -> TokenSpan | None:
        if not 0 <= row < self._rows:
            return None
        group = bisect_right(self._firsts, row) - 1
        if group not in self._blocks:
            try:
                with pq.ParquetFile(self._path) as file:
                    self._blocks[group] = _Block(file.read_row_group(group, use_threads=False))
            except (pa.ArrowInvalid, OSError) as error:
                raise _damaged(self._path, error) from error
            if len(self._blocks) > 2:
                self._blocks.popitem(last=False)
        return self._blocks[group].span(row - self._firsts[group])


class _Block:
    """Some rows as flat arrays: `ends[name][r] : ends[name][r + 1]` is row r's slice."""

    def __init__(self, table: Any) -> None:
        self.rows: int = table.num_rows
        whole = table.combine_chunks()
        self._ends: dict[str, Any] = {}
        self._flat: dict[str, Any] = {}
        for name in _LISTS:
            column = whole.column(name).chunk(0)
            self._ends[name] = column.offsets.to_numpy()
            self._flat[name] = column.values.to_numpy()
        self._continues: list[bool] = whole.column("continues").to_pylist()
        self._cached: list[int] = whole.column("cached").to_pylist()

    def span(self, row: int) -> TokenSpan:
        offsets, versions = self._list("version_offsets", row), self._list("versions", row)
        return TokenSpan(
            context=self._list("context", row),
            sampled=self._list("sampled", row),
            logprobs=self._list("logprobs", row),
            versions=list(zip(offsets, versions, strict=True)),
            continues=self._continues[row],
            cached=self._cached[row],
        )

    def _list(self, name: str, row: int) -> list[Any]:
        ends = self._ends[name]
        found: list[Any] = self._flat[name][ends[row] : ends[row + 1]].tolist()
        return found


def _record(span: TokenSpan) -> bytes:
    """One row as one Arrow message, from plain buffers: `pa.array` would load pandas first."""
    columns = [
        _one(array("i", span.context), _IDS),
        _one(array("i", span.sampled), _IDS),
        _one(array("f", span.logprobs), _REALS),
        _one(array("i", [offset for offset, _ in span.versions]), _IDS),
        _one(array("i", [version for _, version in span.versions]), _IDS),
        pa.Array.from_buffers(pa.bool_(), 1, [None, pa.py_buffer(bytes([span.continues]))]),
        pa.Array.from_buffers(pa.int32(), 1, [None, pa.py_buffer(array("i", [span.cached]))]),
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=COLUMNS)
    record: bytes = batch.serialize().to_pybytes()
    return record


def _one(values: "array[Any]", kind: Any) -> Any:
    """A column of one list."""
    flat = pa.Array.from_buffers(kind.value_type, len(values), [None, pa.py_buffer(values)])
    ends = pa.py_buffer(array("i", [0, len(values)]))
    return pa.Array.from_buffers(kind, 1, [None, ends], children=[flat])


def _batches(path: Path, start: int) -> tuple[list[Any], int]:
    """Whole record batches from byte `start` on, and where they end; a torn tail is left alone."""
    with path.open("rb") as file:
        file.seek(start)
        reader = pa.BufferReader(file.read())
    batches: list[Any] = []
    end = 0
    while True:
        try:
            message = pa.ipc.read_message(reader)
        except (EOFError, OSError, pa.ArrowInvalid):
            return batches, start + end
        if message.type == "record batch":
            batches.append(pa.ipc.read_record_batch(message, COLUMNS))
        end = reader.tell()


def _to_parquet(source: Path, target: Path) -> None:
    table = pa.Table.from_batches(_batches(source, 0)[0], COLUMNS).combine_chunks()
    pq.write_table(table, target, compression="zstd", row_group_size=_ROWS_A_GROUP)


def _damaged(path: Path, error: Exception) -> StoreError:
    return StoreError(
        f"a token shard cannot be read: {error}",
        where=str(path),
        help="restore that file, or read the words alone: events(tokens=False)",
    )
