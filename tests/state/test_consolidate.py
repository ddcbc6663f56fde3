"""Consolidation against Counter."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsql.core import types as t
from streamsql.core.delta import Delta
from streamsql.core.schema import Schema
from streamsql.state.consolidate import cancel, consolidate
from tests.kernels.values import batch_of, row_key, rows_of

Rows = list[tuple[Any, ...]]
AB = Schema.of(("a", t.BIGINT), ("b", t.TEXT))


def delta_of(
    schema: Schema, rows: Rows, weights: list[int] | None, watermarks: Any = None
) -> Delta:
    return Delta(
        batch_of(schema, rows, padding=len(rows) % 3),
        None if weights is None else np.array(weights, np.int64),
        None if watermarks is None else np.array(watermarks, np.int64),
    )


def bag(delta: Delta) -> Counter[Any]:
    found: Counter[Any] = Counter()
    columns = [c.to_pylist() for c in delta.batch.columns]
    for row, w in zip(zip(*columns, strict=True), delta.weights_or_ones().tolist(), strict=True):
        found[row_key(row, True)] += w
    return Counter({k: w for k, w in found.items() if w})


@given(rows_of(max_rows=20), st.data())
def test_consolidated_delta_is_the_same_zset_with_each_row_once(
    drawn: tuple[Schema, Rows], data: st.DataObject
) -> None:
    schema, rows = drawn
    n = len(rows)
    weights = data.draw(st.none() | st.lists(st.integers(-2, 2), min_size=n, max_size=n))
    delta = delta_of(schema, rows, weights)
    result = consolidate(delta)
    assert result.consolidated
    assert bag(result) == bag(delta)
    assert result.num_rows == len(bag(delta))
    assert bag(cancel(delta)) == bag(delta)


def test_delta_without_duplicates_is_not_copied() -> None:
    delta = delta_of(AB, [(1, "a"), (2, "a")], [1, -1])
    result = consolidate(delta)
    assert result.batch is delta.batch
    assert result.consolidated
    assert consolidate(result) is result


def test_single_entry_is_consolidated_and_single_zero_is_nothing() -> None:
    assert consolidate(delta_of(AB, [(1, "a")], None)).consolidated
    assert not consolidate(delta_of(AB, [(1, "a")], [0]))


def test_weights_that_end_all_one_are_left_out() -> None:
    result = consolidate(delta_of(AB, [(1, "a"), (1, "a"), (1, "a"), (2, None)], [1, -1, 1, 1]))
    assert result.weights is None
    assert result.num_rows == 2


def test_entries_of_different_watermarks_do_not_cancel_unless_asked() -> None:
    delta = delta_of(AB, [(1, "a"), (1, "a"), (1, "a")], [1, -1, 1], [10, 20, 10])
    kept = consolidate(delta)
    assert kept.weights_or_ones().tolist() == [2, -1]
    assert kept.row_watermark is not None
    assert kept.row_watermark.tolist() == [10, 20]
    assert not kept.consolidated
    merged = consolidate(delta, ignore_watermark=True)
    assert merged.num_rows == 1
    assert merged.consolidated


def test_cancel_leaves_insertions_alone() -> None:
    twice = delta_of(AB, [(1, "a"), (1, "a")], [1, 2])
    assert cancel(twice) is twice
    assert cancel(delta_of(AB, [(1, "a"), (1, "a")], [1, -1])).num_rows == 0


def test_an_update_between_the_zeros_is_kept() -> None:
    schema = Schema.of(("x", t.DOUBLE))
    result = consolidate(delta_of(schema, [(0.0,), (-0.0,)], [-1, 1]))
    assert result.num_rows == 2


@pytest.mark.parametrize("n", [1000, 70_000])
def test_large_deltas_consolidate(n: int) -> None:
    keys = np.arange(n) % (n // 4)
    batch = pa.RecordBatch.from_arrays(
        [pa.array(keys), pa.array(keys).cast(pa.string())], schema=AB.arrow
    )
    result = consolidate(Delta(batch, np.where(np.arange(n) < n // 2, 1, -1)))
    assert result.num_rows == 0
