"""Consolidation: add the weights of equal rows, drop what adds up to zero."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamsql.core.delta import Delta, Int64Array
from streamsql.kernels import zset
from streamsql.kernels.arrays import int64s
from streamsql.kernels.hashing import UInt64Array, hash_arrays


def consolidate(delta: Delta, *, ignore_watermark: bool = False) -> Delta:
    """The same Z-set with every row at most once and no weight 0.

    Rows are told apart by representation. While a delta still carries `row_watermark`, entries of
    different watermarks are different rows (whether a row is late is judged by it), and the result
    is marked consolidated only if there is at most one entry; `ignore_watermark` merges them, and
    keeps the first one's. Order: of first appearance. Cost: one hash of the columns and one pass;
    none for a delta that is marked consolidated or has at most one entry.
    """
    by_watermark = delta.row_watermark is not None and not ignore_watermark
    if delta.consolidated:
        return delta
    n = delta.num_rows
    if n == 1 and delta.weights is not None and delta.weights[0] == 0:
        delta = delta.take(np.empty(0, np.int64))
    if n <= 1:
        return Delta(delta.batch, delta.weights, delta.row_watermark, True)
    columns = list(delta.batch.columns)
    if by_watermark:
        columns.append(pa.array(delta.row_watermark))
    h0, h1 = hash_arrays(columns, n, exact=True)
    rows, sums = sum_by_key(h0, h1, delta.weights_or_ones())
    if rows.size == n:
        return Delta(delta.batch, delta.weights, delta.row_watermark, not by_watermark)
    taken = delta.take(rows)
    weights = None if (sums == 1).all() else sums
    return Delta(taken.batch, weights, taken.row_watermark, not by_watermark)


def cancel(delta: Delta) -> Delta:
    """Like `consolidate`, but leaves a delta without retractions as it is (duplicates stay).

    Enough for consumers that only need a row's insertion and retraction in one tick to cancel.
    """
    if delta.weights is None or delta.consolidated or not bool((delta.weights <= 0).any()):
        return delta
    return consolidate(delta)


def sum_by_key(
    h0: UInt64Array, h1: UInt64Array, weights: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """(first entry int64[k], summed weight int64[k]) of every key whose weights do not add up to
    0."""
    rows, sums = np.empty(h0.size, np.int64), np.empty(h0.size, np.int64)
    kept = zset.sum_weights(h0, h1, int64s(weights), rows, sums)
    return rows[:kept], sums[:kept]
