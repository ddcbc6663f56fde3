"""Aggregates of INTERVAL over the list of a group's values: percentiles, sums of distinct ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from streamsql.core.types import DOUBLE, INTERVAL
from streamsql.functions.compute.arrays import make_lists
from streamsql.functions.compute.columns import Value, broadcast, validity_from, values
from streamsql.functions.compute.interval_arithmetic import (
    interval_add,
    interval_divide,
    interval_multiply,
    interval_subtract,
)
from streamsql.functions.compute.intervals import checked_parts, interval_key, parts_of
from streamsql.functions.definitions import KernelCall


def percentile(call: KernelCall, lists: Value, fractions: Value) -> Any:
    """PERCENTILE_CONT of sorted lists: between two neighbours by their difference times the rest.

    fractions: a number a list, or a list of numbers; a NULL among them gives NULL.
    """
    items, starts, counts = _without_nulls(broadcast(lists, call.num_rows))
    asked = broadcast(fractions, call.num_rows)
    if not pa.types.is_list(asked.type):
        return _between(call, items, starts, counts, asked)
    lengths = np.diff(np.asarray(asked.offsets))
    rows = np.repeat(np.arange(call.num_rows), lengths)
    inner = KernelCall(rows.size, INTERVAL, (INTERVAL, DOUBLE), call.now_us, call.timezone)
    found = _between(inner, items, starts[rows], counts[rows], asked.flatten())
    for failure in inner.failures:
        bad = np.zeros(call.num_rows, np.bool_)
        bad[rows[np.asarray(failure.rows)]] = True
        call.fail(bad, failure.error, failure.text(0))
    there = (counts > 0) & np.asarray(asked.is_valid())
    return make_lists(call.type.arrow, lengths, found, validity_from(there))


def sum_distinct(call: KernelCall, lists: Value) -> Any:
    """SUM of the values that differ; of equal ones the first of the sorted list counts."""
    total, _ = _sum_distinct(call, broadcast(lists, call.num_rows))
    return total


def avg_distinct(call: KernelCall, lists: Value) -> Any:
    """AVG of the values that differ."""
    total, counts = _sum_distinct(call, broadcast(lists, call.num_rows))
    divisor = pa.array(np.maximum(counts, 1).astype(np.float64))
    return _within(call, interval_divide, total, divisor)


def _within(call: KernelCall, kernel: Any, a: pa.Array, b: pa.Array) -> pa.Array:
    """A kernel of interval arithmetic whose failures are the call's."""
    types = INTERVAL, INTERVAL if b.type == INTERVAL.arrow else DOUBLE
    inner = KernelCall(call.num_rows, INTERVAL, types, call.now_us, call.timezone)
    found = kernel(inner, a, b)
    call.failures += inner.failures
    return found


def _without_nulls(lists: pa.Array) -> tuple[pa.Array, np.ndarray, np.ndarray]:
    """(values, where each list's begin, how many it has)."""
    flat = lists.flatten()
    valid = np.asarray(flat.is_valid())
    lengths = np.where(np.asarray(lists.is_valid()), np.diff(np.asarray(lists.offsets)), 0)
    kept = np.concatenate([[0], np.cumsum(valid)])
    ends = np.cumsum(lengths)
    starts = kept[ends - lengths]
    return flat.filter(pa.array(valid)), starts, kept[ends] - starts


def _between(
    call: KernelCall, items: pa.Array, starts: np.ndarray, counts: np.ndarray, fractions: pa.Array
) -> pa.Array:
    there = (counts > 0) & np.asarray(fractions.is_valid())
    place = np.where(there, values(fractions), 0.0) * np.maximum(counts - 1, 0)
    low, high = np.floor(place), np.ceil(place)

    def at(places: np.ndarray) -> pa.Array:
        return items.take(pa.array(starts + places.astype(np.int64), mask=~there))

    first = at(low)
    step = _within(call, interval_subtract, at(high), first)
    part = _within(call, interval_multiply, step, pa.array(place - low))
    return _within(call, interval_add, first, part)


def _sum_distinct(call: KernelCall, lists: pa.Array) -> tuple[pa.Array, np.ndarray]:
    items, _, counts = _without_nulls(lists)
    group = np.repeat(np.arange(counts.size), counts)
    days, us = interval_key(items)
    opens = np.ones(group.size, np.bool_)
    opens[1:] = (np.diff(group) != 0) | (np.diff(days) != 0) | (np.diff(us) != 0)
    totals = []
    for part in parts_of(items):
        total = np.zeros(call.num_rows, np.int64)
        np.add.at(total, group[opens], part[opens])
        totals.append(total)
    distinct = np.bincount(group[opens], minlength=call.num_rows)
    present = pa.array(np.where(distinct > 0, 1, 0), mask=distinct == 0)
    return checked_parts(call, *totals, present), distinct
