"""Token rows survive, in either form and between."""

import math
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.errors import StoreError
from agentrl.trajectory.records import TokenSpan
from agentrl.trajectory.tokens import CLOSED, OPEN, TokenReader, TokenShard, rounded

from .strategies import spans

SPAN = TokenSpan([1, 2, 3], [4, 5], [-0.1, -math.inf], [(0, 7), (1, 8)], False, 2)


def now(job: Callable[[], None]) -> None:
    job()


def shard(root: Path, rotate_bytes: int = 1 << 20) -> TokenShard:
    return TokenShard(root, "w", rotate_bytes=rotate_bytes, later=now)


@settings(deadline=None, max_examples=30)
@given(made=st.lists(spans(), min_size=1, max_size=12), size=st.sampled_from([1, 3_000, 1 << 20]))
def test_rows_read_back_exactly_open_and_closed(
    tmp_path_factory: pytest.TempPathFactory, made: list[TokenSpan], size: int
) -> None:
    root = tmp_path_factory.mktemp("tokens")
    pen, early = shard(root, size), TokenReader(root)
    rows = []
    for span in made:
        rows.append(pen.append(span))
        assert early.span(*rows[-1]) == rounded(span)
    pen.close()
    for reader in (early, TokenReader(root, keep=1)):
        assert [reader.span(*row) for row in rows] == [rounded(span) for span in made]
    assert not list(root.rglob(f"*{OPEN}"))


def test_rounding_is_to_32_bits_and_changes_nothing_twice() -> None:
    once = rounded(SPAN)
    assert once.logprobs == [-0.10000000149011612, -math.inf]
    assert rounded(once) == once


def test_an_open_shard_is_a_plain_arrow_stream(tmp_path: Path) -> None:
    pen = shard(tmp_path)
    pen.append(SPAN)
    pen.append(SPAN)
    (path,) = tmp_path.rglob(f"*{OPEN}")
    table = pa.ipc.open_stream(path.read_bytes()).read_all()
    assert table.column("sampled").to_pylist() == [[4, 5], [4, 5]]
    assert table.schema.field("logprobs").type == pa.list_(pa.float32())


def test_a_torn_row_costs_only_itself_wherever_it_is_cut(tmp_path: Path) -> None:
    pen = shard(tmp_path)
    kept = pen.append(SPAN)
    (path,) = tmp_path.rglob(f"*{OPEN}")
    whole = path.stat().st_size
    lost = pen.append(SPAN)
    data = path.read_bytes()
    for end in (*range(whole, len(data), 7), len(data) - 1):
        path.write_bytes(data[:end])
        reader = TokenReader(tmp_path)
        assert reader.span(*kept) == rounded(SPAN)
        with pytest.raises(StoreError, match="the tokens of row 1 are missing"):
            reader.span(*lost)


def test_a_reader_sees_rows_that_come_after_it_looked_and_the_change_to_parquet(
    tmp_path: Path,
) -> None:
    pen, reader = shard(tmp_path), TokenReader(tmp_path)
    first = pen.append(SPAN)
    assert reader.span(*first) == rounded(SPAN)
    second = pen.append(SPAN)
    third = pen.append(SPAN)
    assert reader.span(*second) == rounded(SPAN)
    late = TokenReader(tmp_path)
    assert late.span(*first) == rounded(SPAN)
    pen.append(SPAN)
    pen.close()
    assert list(tmp_path.rglob(f"*{CLOSED}"))
    assert late.span(third[0], 3) == rounded(SPAN)  # never seen while it was a stream


def test_a_damaged_closed_shard_is_named(tmp_path: Path) -> None:
    pen = shard(tmp_path)
    row = pen.append(SPAN)
    pen.close()
    (path,) = tmp_path.rglob(f"*{CLOSED}")
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(StoreError, match="a token shard cannot be read") as caught:
        TokenReader(tmp_path).span(*row)
    assert str(path) in str(caught.value)
