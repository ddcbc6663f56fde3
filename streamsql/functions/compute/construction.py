"""make_date, make_time, make_timestamp, make_interval, to_timestamp(seconds)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from streamsql.core.errors import DatetimeFieldOverflow, NumericValueOutOfRange
from streamsql.core.types import Kind
from streamsql.functions.compute.columns import (
    Value,
    broadcast,
    column,
    validity,
    values,
    with_nulls_at,
)
from streamsql.functions.compute.datetimes import checked_stamps, days_of, month_length
from streamsql.functions.compute.grouped import constants
from streamsql.functions.compute.intervals import checked_parts
from streamsql.functions.compute.zones import utc_from_local
from streamsql.functions.definitions import KernelCall
from streamsql.functions.textio.calendar import TIMESTAMP_INFINITY, US_PER_DAY


def _ints(call: KernelCall, args: tuple[Value, ...]) -> list[Any]:
    return [values(broadcast(a, call.num_rows)).astype(np.int64) for a in args]


def _days(call: KernelCall, year: Any, month: Any, day: Any) -> tuple[Any, Any]:
    """(day numbers, bad rows) of year (BC negative, no 0), month, day."""
    bad = (year == 0) | (month < 1) | (month > 12) | (day < 1) | (np.abs(year) > 5874897)
    y = np.where(bad, 2000, np.where(year < 0, year + 1, year))
    m = np.where(bad, 1, month)
    bad |= day > month_length(y, m)
    return days_of(y, m, np.where(bad, 1, day)), bad


def make_date(call: KernelCall, *args: Value) -> pa.Array:
    """make_date(year, month, day)."""
    year, month, day = _ints(call, args)
    days, bad = _days(call, year, month, day)
    result = column(days.astype(np.int32), pa.date32(), validity(*args))
    if not bad.any():
        return result

    def message(row: int) -> str:
        return f"date field value out of range: {year[row]}-{month[row]:02d}-{day[row]:02d}"

    call.fail(bad, DatetimeFieldOverflow, message)
    return with_nulls_at(result, bad)


def _clock(call: KernelCall, hour: Any, minute: Any, second: Value) -> tuple[Any, Any]:
    """(µs of the day, bad rows)."""
    s = values(broadcast(second, call.num_rows))
    with np.errstate(invalid="ignore"):
        bad = (hour < 0) | (hour > 24) | (minute < 0) | (minute > 59) | ~((s >= 0) & (s <= 60))
    us = (hour * 60 + minute) * 60_000_000 + np.rint(np.where(bad, 0, s) * 1e6).astype(np.int64)
    return us, bad | (us > US_PER_DAY)


def make_time(call: KernelCall, *args: Value) -> pa.Array:
    """make_time(hour, minute, second)."""
    hour, minute = _ints(call, args[:2])
    us, bad = _clock(call, hour, minute, args[2])
    result = column(us, call.type.arrow, validity(*args))
    if bad.any():
        call.fail(bad, DatetimeFieldOverflow, "time field value out of range")
        return with_nulls_at(result, bad)
    return result


@constants(6)
def make_timestamp(call: KernelCall, *args: Value) -> pa.Array:
    """make_timestamp[tz](year, month, day, hour, minute, second[, zone])."""
    year, month, day, hour, minute = _ints(call, args[:5])
    days, bad = _days(call, year, month, day)
    clock, bad_clock = _clock(call, hour, minute, args[5])
    us = days * US_PER_DAY + clock
    if call.type.kind is Kind.TIMESTAMPTZ:
        zone = args[6].as_py() if len(args) > 6 else call.timezone
        us = utc_from_local(us, zone)
    result = column(us, call.type.arrow, validity(*args[:6]))
    if bad.any():
        call.fail(bad, DatetimeFieldOverflow,
                  lambda r: "date field value out of range: "
                  f"{year[r]}-{month[r]:02d}-{day[r]:02d}")  # fmt: skip
    if bad_clock.any():
        call.fail(bad_clock & ~bad, DatetimeFieldOverflow, "time field value out of range")
    bad = bad | bad_clock
    return with_nulls_at(result, bad) if bad.any() else result


def make_interval(call: KernelCall, *args: Value) -> pa.Array:
    """make_interval(years, months, weeks, days, hours, mins, secs)."""
    parts = _ints(call, args[:6]) + [0] * (6 - min(len(args), 6))
    years, months, weeks, days, hours, mins = parts
    secs = values(broadcast(args[6], call.num_rows)) if len(args) > 6 else np.zeros(call.num_rows)
    us = (hours * 60 + mins) * 60_000_000 + np.rint(secs * 1e6).astype(np.int64)
    return checked_parts(call, years * 12 + months, weeks * 7 + days, us, *args)


FARTHEST_US = 9.22e18
"""Seconds from 1970 in µs that an int64 surely holds; `checked_stamps` knows the exact limits."""


def from_epoch(call: KernelCall, a: pa.Array) -> pa.Array:
    """to_timestamp(seconds since 1970)."""
    seconds = values(a)
    nan = np.isnan(seconds)
    if nan.any():
        call.fail(nan, NumericValueOutOfRange, "timestamp cannot be NaN")
    infinite = np.isinf(seconds)
    us = np.rint(np.where(nan | infinite, 0, seconds) * 1e6)
    far = np.abs(us) >= FARTHEST_US
    if far.any():
        call.fail(far, DatetimeFieldOverflow, "timestamp out of range")
    us = np.where(far, 0, us).astype(np.int64)
    if infinite.any():
        us = np.where(infinite, np.where(seconds > 0, 1, -1) * TIMESTAMP_INFINITY, us)
    return checked_stamps(call, us, a)
