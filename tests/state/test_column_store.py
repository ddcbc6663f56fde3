"""ColumnStore against lists of Python values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsql.core import types as t
from streamsql.core.errors import ProgramLimitExceeded
from streamsql.core.schema import Schema
from streamsql.kernels.columns import CHUNK_ROWS
from streamsql.kernels.hashing import hash_arrays
from streamsql.state import columns as store_columns
from streamsql.state.column_store import ColumnStore
from tests.kernels.values import ALL_TYPES, STRATEGIES, batch_of, rows_of

Rows = list[tuple[Any, ...]]


def store_of(schema: Schema, pieces: list[Rows]) -> ColumnStore:
    store = ColumnStore(schema.arrow)
    for i, rows in enumerate(pieces):
        base = store.num_rows
        assert store.append(batch_of(schema, rows, padding=i % 10)) == base
    return store


def same(got: pa.Table | pa.RecordBatch, schema: Schema, rows: Rows) -> None:
    """Equal column by column; NaN = NaN, -0.0 is not 0.0."""
    expected = batch_of(schema, rows)
    assert got.schema.equals(schema.arrow)
    assert got.num_rows == len(rows)
    got.validate(full=True)
    for i in range(len(schema)):
        assert repr(got.column(i).to_pylist()) == repr(expected.column(i).to_pylist())


@given(st.data(), rows_of(max_rows=40))
def test_table_and_take_give_back_what_was_appended(
    data: st.DataObject, drawn: tuple[Schema, Rows]
) -> None:
    schema, rows = drawn
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    pieces = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    store = store_of(schema, pieces)
    same(store.table(), schema, rows)
    wanted = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=20)) if rows else []
    same(store.take(np.array(wanted, np.int64)), schema, [rows[i] for i in wanted])
    prefix = data.draw(st.integers(0, len(rows)))
    same(store.table(prefix), schema, rows[:prefix])


@given(rows_of(max_rows=10), st.lists(st.integers(-1, 3), max_size=8))
def test_negative_row_numbers_give_rows_of_nulls(
    drawn: tuple[Schema, Rows], wanted: list[int]
) -> None:
    schema, rows = drawn
    store = store_of(schema, [rows])
    wanted = [i for i in wanted if i < len(rows)]
    nulls = (None,) * len(schema)
    taken = store.take(np.array(wanted, np.int64), negative=True)
    same(taken, schema, [rows[i] if i >= 0 else nulls for i in wanted])


@given(rows_of(max_rows=30), st.data())
def test_rebuild_keeps_rows_in_the_given_order(
    drawn: tuple[Schema, Rows], data: st.DataObject
) -> None:
    schema, rows = drawn
    store = store_of(schema, [rows])
    before = store.table()
    keep = data.draw(st.permutations(range(len(rows)))) if rows else []
    keep = keep[: len(rows) // 2]
    store.rebuild(np.array(keep, np.int64))
    same(store.table(), schema, [rows[i] for i in keep])
    store.append(batch_of(schema, rows))
    same(store.table(), schema, [rows[i] for i in keep] + rows)
    same(before, schema, rows)


@given(rows_of(max_rows=30), rows_of(max_rows=30))
def test_exported_tables_stay_as_they_were_while_the_store_grows(
    drawn: tuple[Schema, Rows], _: Any
) -> None:
    schema, rows = drawn
    store = ColumnStore(schema.arrow)
    seen: list[tuple[pa.Table, int]] = []
    for row in rows:
        store.append(batch_of(schema, [row]))
        seen.append((store.table(), store.num_rows))
    for table, n in seen:
        same(table, schema, rows[:n])


@pytest.mark.parametrize("type_", ALL_TYPES, ids=str)
def test_columns_of_every_type_cross_chunks(type_: t.SqlType) -> None:
    schema = Schema.of(("c0", type_))
    values = [None, *pool_of(type_)]
    small = pa.array(values, type_.arrow)
    piece = pa.array(np.arange(30_000) % len(values))
    store = ColumnStore(schema.arrow)
    expected = []
    for i in range(6):
        batch = pa.RecordBatch.from_arrays([small.take(piece).slice(i)], schema=schema.arrow)
        store.append(batch)
        expected.append(batch.column(0))
    whole = pa.concat_arrays(expected)
    assert store.num_rows > 2 * CHUNK_ROWS
    rejoined = pa.concat_arrays(store.table().column(0).chunks)
    rejoined.validate(full=True)
    for lane, expected_lane in zip(lanes(rejoined), lanes(whole), strict=True):
        assert (lane == expected_lane).all()
    rows = np.random.default_rng(1).integers(0, store.num_rows, 5000)
    got, want = store.take(rows).column(0), whole.take(pa.array(rows))
    got.validate(full=True)
    assert repr(got.to_pylist()) == repr(want.to_pylist())
    assert sum(b.num_rows for b in store.batches(5)) == store.num_rows - 5


def lanes(array: pa.Array) -> Any:
    return hash_arrays([array], exact=True)


def pool_of(type_: t.SqlType) -> list[Any]:
    pool: list[Any] = []

    @settings(max_examples=25, derandomize=True, database=None)
    @given(STRATEGIES[type_])
    def draw(value: Any) -> None:
        pool.append(value)

    draw()
    return pool


def test_chunk_beyond_the_reach_of_int32_offsets_turns_wide(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store_columns, "ARENA_LIMIT", 1000)
    schema = Schema.of(("c0", t.TEXT), ("c1", t.BYTEA))
    rows = [(f"text {i} " * 5, None if i % 7 == 0 else bytes([i]) * 60) for i in range(100)]
    store = store_of(schema, [rows[:10], rows[10:15], rows[15:70], rows[70:]])
    table = store.table()
    same(table, schema, rows)
    assert table.column(0).num_chunks > 3
    wanted = [99, 3, 50, 11, 7]
    same(store.take(np.array(wanted)), schema, [rows[i] for i in wanted])
    with pytest.raises(ProgramLimitExceeded, match="more than 2 GB"):
        store.take(np.arange(100))
    assert sum(b.num_rows for b in store.chunk_batches(0)) == 100


def test_rows_that_are_not_there_are_refused() -> None:
    store = store_of(Schema.of(("a", t.BIGINT)), [[(1,), (2,)]])
    for rows in ([2], [-1], [0, 5]):
        with pytest.raises(IndexError):
            store.take(np.array(rows))
    with pytest.raises(IndexError):
        store.table(3)


def test_store_without_columns_counts_its_rows() -> None:
    schema = Schema(())
    store = ColumnStore(schema.arrow)
    empty = pa.RecordBatch.from_arrays([pa.nulls(3)], names=["x"]).select([])
    store.append(empty)
    store.append(empty)
    assert (store.num_rows, store.table().num_rows) == (6, 6)
    assert store.take(np.array([1, 1])).num_rows == 2
    store.rebuild(np.array([4]))
    assert (store.num_rows, store.table().num_rows) == (1, 1)


def test_columns_without_nulls_keep_no_bitmap_and_little_memory() -> None:
    schema = Schema.of(("a", t.BIGINT), ("b", t.INTEGER))
    store = ColumnStore(schema.arrow)
    n = 10 * CHUNK_ROWS
    arrays = [pa.array(np.arange(n)), pa.array(np.arange(n, dtype=np.int32))]
    store.append(pa.RecordBatch.from_arrays(arrays, schema=schema.arrow))
    assert store.nbytes == 12 * n
    assert store.table().column(0).chunk(3).buffers()[0] is None


def test_table_shares_the_stores_memory() -> None:
    store = store_of(Schema.of(("a", t.BIGINT)), [[(i,) for i in range(100)]])
    before = pa.total_allocated_bytes()
    tables = [store.table(i) for i in range(100)]
    assert pa.total_allocated_bytes() == before
    assert tables[50].num_rows == 50
