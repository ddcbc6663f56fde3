"""generate_series and generate_subscripts: their rows as one array a call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from streamsql.core.errors import InvalidParameterValue, ProgramLimitExceeded
from streamsql.core.types import Kind
from streamsql.functions.compute.arrays import lengths_of, make_lists, valid_rows
from streamsql.functions.compute.columns import (
    Value,
    broadcast,
    column,
    validity_from,
    values,
)
from streamsql.functions.definitions import KernelCall


def integer_series(call: KernelCall, first: Value, last: Value, step: Any = None) -> Any:
    """generate_series of integers as an array."""
    n = call.num_rows
    start = values(broadcast(first, n)).astype(np.int64)
    stop = values(broadcast(last, n)).astype(np.int64)
    by = np.ones(n, np.int64) if step is None else values(broadcast(step, n)).astype(np.int64)
    valid = _all_valid(n, first, last, step)
    zero = (by == 0) & valid
    if zero.any():
        call.fail(zero, InvalidParameterValue, "step size cannot equal zero")
    safe = np.where(by == 0, 1, by)
    spans = (stop.astype(np.float64) - start) / safe
    long = valid & (by != 0) & (spans >= ELEMENTS_MAX)
    if long.any():  # an error of its row alone
        call.fail(long, ProgramLimitExceeded, TOO_LONG)
        valid = valid & ~long
    counts = np.where(valid & (by != 0), np.maximum((stop - start) // safe + 1, 0), 0)
    check_count(float(counts.sum(dtype=np.float64)))
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    data = np.repeat(start, counts) + within * np.repeat(safe, counts)
    t = call.type.arrow
    width = t.value_type.bit_width // 8
    return make_lists(t, counts, column(data.astype(f"i{width}"), t.value_type),
                      validity_from(valid))  # fmt: skip


ELEMENTS_MAX = 100_000_000
TOO_LONG = f"generate_series would return more than {ELEMENTS_MAX} rows"


def check_count(elements: float) -> None:
    """Refuse a series that does not fit in memory. Raises: ProgramLimitExceeded (54000)."""
    if elements > ELEMENTS_MAX:
        raise ProgramLimitExceeded(
            TOO_LONG,
            hint="Its rows are made all at once, whatever LIMIT says: give a nearer end.",
        )


def _all_valid(n: int, *args: Any) -> Any:
    valid = np.ones(n, np.bool_)
    for a in args:
        if isinstance(a, pa.Scalar):
            valid &= a.is_valid
        elif a is not None:
            valid &= valid_rows(a)
    return valid


def numeric_series(call: KernelCall, first: Value, last: Value, step: Any = None) -> Any:
    """generate_series of NUMERICs as an array."""
    from decimal import Decimal

    n = call.num_rows
    columns = [broadcast(a, n).to_pylist() for a in (first, last)]
    steps = [Decimal(1)] * n if step is None else broadcast(step, n).to_pylist()
    made: list[Any] = []
    for start, stop, by in zip(*columns, steps, strict=True):
        if start is None or stop is None or by is None:
            made.append(None)
            continue
        if by == 0:
            call.fail(True, InvalidParameterValue, "step size cannot equal zero")
            return pa.scalar(None, call.type.arrow)
        count = int((stop - start) / by) + 1 if (stop - start) / by >= 0 else 0
        check_count(count)
        made.append([start + by * k for k in range(count)])
    return pa.array(made, call.type.arrow)


def timestamp_series(call: KernelCall, first: Value, last: Value, step: Value) -> Any:
    """generate_series of timestamps as an array; a step of months follows the calendar."""
    from streamsql.functions.compute.datetimes import _shift, _shift_in_zone

    n = call.num_rows
    start = values(broadcast(first, n)).astype(np.int64)
    stop = values(broadcast(last, n)).astype(np.int64)
    steps = broadcast(step, n)
    valid = _all_valid(n, first, last, step)
    pieces: list[Any] = []
    for i in range(n):
        if not valid[i]:
            pieces.append(np.zeros(0, np.int64))
            continue
        one = steps.slice(i, 1)
        now, found = np.array([start[i]]), []
        zoned = call.type.element is not None and call.type.element.kind is Kind.TIMESTAMPTZ

        def move(x: Any, one: Any = one, zoned: bool = zoned) -> Any:
            return _shift_in_zone(x, one, 1, call.timezone) if zoned else _shift(x, one, 1)

        ahead = move(now)[0] > now[0]
        if move(now)[0] == now[0]:
            call.fail(True, InvalidParameterValue, "step size cannot equal zero")
            return pa.scalar(None, call.type.arrow)
        while now[0] <= stop[i] if ahead else now[0] >= stop[i]:
            found.append(now[0])
            now = move(now)
        pieces.append(np.array(found, np.int64))
    data = np.concatenate(pieces) if pieces else np.zeros(0, np.int64)
    lengths = np.array([len(p) for p in pieces], np.int64)
    t = call.type.arrow
    return make_lists(t, lengths, column(data, t.value_type), validity_from(valid))


def subscripts(call: KernelCall, a: Value, dimension: Value, reverse: Any = None) -> Any:
    """generate_subscripts as an array: 1 … n of the first dimension (n … 1 if reversed), nothing
    of a missing one."""
    lists = broadcast(a, call.num_rows)
    dimensions = broadcast(dimension, call.num_rows)
    there = valid_rows(lists) & valid_rows(dimensions)
    counts = np.where(there & (values(dimensions) == 1), lengths_of(lists), 0)
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts) + 1
    if reverse is not None:
        turned = np.asarray(broadcast(reverse, call.num_rows).fill_null(False))
        there &= valid_rows(broadcast(reverse, call.num_rows))
        within = np.where(np.repeat(turned, counts), np.repeat(counts, counts) + 1 - within, within)
    items = column(within.astype(np.int32), pa.int32())
    return make_lists(call.type.arrow, counts, items, validity_from(there))
