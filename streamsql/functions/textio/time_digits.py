"""TIME(p), TIMESTAMP(p), TIMESTAMPTZ(p), INTERVAL(p): times rounded as PostgreSQL does, halves away
from its epoch (the year 2000) or from 0. Of INTERVAL DAY TO MINUTE and kin finer fields are cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamsql.core.interval_fields import ALL_DIGITS, STEPS_US, cut, last_field
from streamsql.core.types import Kind, SqlType
from streamsql.functions.compute.columns import column, validity, values
from streamsql.functions.textio.calendar import TIMESTAMP_INFINITY

Int64Array = npt.NDArray[np.int64]
EPOCH_US = 946_684_800_000_000  # 2000-01-01
DIGITS_MAX = 6


def rounded(a: pa.Array, digits: int) -> pa.Array:
    """A column of times, or of arrays of times.

    >>> rounded(pa.array([1_500, -1_500, None], pa.timestamp("us")), 3).cast(pa.int64()).to_pylist()
    [2000, -2000, None]
    """
    step, last = _step(digits), last_field(digits)
    if (step == 1 and last is None) or not len(a):
        return a
    t = a.type
    if pa.types.is_list(t):
        items = rounded(a.values, digits)
        return pa.Array.from_buffers(t, len(a), a.buffers()[:2], offset=a.offset, children=[items])
    if t == pa.month_day_nano_interval():
        parts = values(a).copy()
        _cut_fields(parts, last)
        parts["ns"] = _nearest(parts["ns"], 1000 * step)
        return column(parts, t, validity(a))
    us = values(a)
    if pa.types.is_time(t):
        return column(_nearest(us, step), t, validity(a))
    infinite = np.abs(us) == TIMESTAMP_INFINITY
    moved = _nearest(us - EPOCH_US, step) + EPOCH_US
    return column(np.where(infinite, us, moved), t, validity(a))


def rounded_value(value: Any, t: SqlType) -> Any:
    """One value as `parse_value` gives it: µs, of an interval (months, days, µs)."""
    if value is None or t.digits is None:
        return value
    step = _step(t.digits)
    if t.kind is Kind.INTERVAL:
        months, days, us = value
        months, days, us = cut(months, days, us, t.digits)
        return months, days, _nearest_int(us, step)
    if t.kind is Kind.TIME:
        return _nearest_int(value, step)
    if abs(value) == TIMESTAMP_INFINITY:
        return value
    return _nearest_int(value - EPOCH_US, step) + EPOCH_US


def _step(digits: int) -> int:
    """µs of the last digit that is kept."""
    return int(10 ** max(0, DIGITS_MAX - (digits & ALL_DIGITS)))


def _cut_fields(parts: Any, last: str | None) -> None:
    """As `interval_fields.cut`, for a column of intervals in place."""
    step = STEPS_US.get(last or "")
    if step is not None:
        parts["ns"] -= np.fmod(parts["ns"], 1000 * step)
    elif last in ("day", "month", "year"):
        parts["ns"] = 0
        if last != "day":
            parts["days"] = 0
        if last == "year":
            parts["months"] -= np.fmod(parts["months"], 12)


def _nearest(n: Int64Array, step: int) -> Int64Array:
    size: Int64Array = (np.abs(n) + step // 2) // step * step
    return np.where(n < 0, -size, size)


def _nearest_int(n: int, step: int) -> int:
    size = (abs(n) + step // 2) // step * step
    return -size if n < 0 else size
