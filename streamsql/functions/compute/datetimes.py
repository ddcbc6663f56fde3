"""Kernels of dates, times and intervals: arithmetic, truncation, age, construction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.errors import (
    DatetimeFieldOverflow,
    FeatureNotSupported,
    InvalidParameterValue,
)
from streamsql.core.types import Kind
from streamsql.functions.compute.columns import Value, broadcast, column, validity, values
from streamsql.functions.compute.grouped import constants
from streamsql.functions.compute.intervals import from_parts, parts, parts_of
from streamsql.functions.compute.zones import local_from_utc, utc_from_local
from streamsql.functions.definitions import KernelCall
from streamsql.functions.textio.calendar import DATE_INFINITY, TIMESTAMP_INFINITY, US_PER_DAY
from streamsql.functions.units import unit_of

US_PER_HOUR = 3_600_000_000
_LOW, _HIGH = -210_866_803_200_000_000, 9_223_371_331_200_000_000 - 946_684_800_000_000


def _us(value: Value, n: int) -> Any:
    return values(broadcast(value, n)).astype(np.int64)


def civil(days: Any) -> tuple[Any, Any, Any]:
    """(year, month, day) of day numbers, int64 [n]; proleptic Gregorian, year 0 = 1 BC."""
    from streamsql.functions.compute import calendar_loops

    numbers = np.ascontiguousarray(days, np.int64)
    year, month, day = (np.empty(numbers.shape, np.int64) for _ in range(3))
    calendar_loops.civil(numbers, year, month, day)
    return year, month, day


def days_of(year: Any, month: Any, day: Any) -> Any:
    """Day numbers of dates; inverse of `civil`."""
    from streamsql.functions.compute import calendar_loops

    parts = [np.ascontiguousarray(np.broadcast_to(x, np.shape(year)), np.int64)
             for x in (year, month, day)]  # fmt: skip
    out = np.empty(np.shape(year), np.int64)
    calendar_loops.days_of(*parts, out)
    return out


def month_length(year: Any, month: Any) -> Any:
    """Days in the month."""
    lengths = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])[month - 1]
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    return lengths + (leap & (month == 2))


def add_months(us: Any, months: Any) -> Any:
    """Local µs with months added; the day is cut to the month's length."""
    days = us // US_PER_DAY
    year, month, day = civil(days)
    total = year * 12 + month - 1 + months
    year, month = total // 12, total % 12 + 1
    day = np.minimum(day, month_length(year, month))
    return days_of(year, month, day) * US_PER_DAY + us - days * US_PER_DAY


def checked_stamps(call: KernelCall, us: Any, *args: Value) -> pa.Array:
    """A timestamp column; what PostgreSQL could not hold fails."""
    from streamsql.functions.compute.columns import with_nulls_at

    result = column(us, call.type.arrow, validity(*args))
    bad = ((us < _LOW) | (us >= _HIGH)) & (np.abs(us) != TIMESTAMP_INFINITY)
    if bad.any():
        call.fail(bad, DatetimeFieldOverflow, "timestamp out of range")
        return with_nulls_at(result, bad)
    return result


def _shift(us: Any, interval: Any, sign: int) -> Any:
    months, days, rest = parts_of(interval)
    moved = us
    if months.any():
        moved = add_months(moved, sign * months)
    return moved + sign * (days * US_PER_DAY + rest)


def _exact_step(call: KernelCall, interval: Value, sign: int) -> int | None:
    """µs of a constant interval that is as long everywhere: no months, no days where clocks may
    change."""
    if isinstance(interval, pa.Array) or not interval.is_valid:
        return None
    months, days, ns = interval.as_py()
    local = call.type.kind is Kind.TIMESTAMPTZ and call.timezone != "UTC"
    if months or ns % 1000 or (days and local):
        return None
    return sign * (days * US_PER_DAY + ns // 1000)


def _shifted(us: Any, step: int) -> Any:
    """us + step, or None if not all of them are finite and stay in range."""
    low, high = _LOW - min(step, 0), _HIGH - max(step, 0)
    if us.size and int(us.min()) >= low and int(us.max()) < high:
        return us + step
    return None


def _plus_interval(sign: int) -> Any:
    def kernel(call: KernelCall, a: Value, b: Value) -> pa.Array:
        if call.arg_types[0].kind is Kind.INTERVAL:
            a, b = b, a
        n = call.num_rows
        stamps = broadcast(a, n)
        step = _exact_step(call, b, sign)
        if step is not None and stamps.type != pa.date32():
            moved = _shifted(values(stamps), step)
            if moved is not None:
                return column(moved, call.type.arrow, validity(a, b))
        us = values(stamps).astype(np.int64)
        infinite = np.abs(us) == TIMESTAMP_INFINITY
        if stamps.type == pa.date32():
            infinite = np.abs(us) == DATE_INFINITY
            us = np.where(infinite, np.sign(us) * TIMESTAMP_INFINITY, us * US_PER_DAY)
        interval = b if isinstance(b, pa.Array) else pa.repeat(b, 1)
        safe = np.where(infinite, 0, us) if infinite.any() else us
        if call.type.kind is Kind.TIMESTAMPTZ and call.timezone != "UTC":
            moved = _shift_in_zone(safe, interval, sign, call.timezone)
        else:
            moved = _shift(safe, interval, sign)
        if infinite.any():
            moved = np.where(infinite, us, moved)
        return checked_stamps(call, moved, a, b)

    return kernel


def _shift_in_zone(us: Any, interval: Any, sign: int, timezone: str) -> Any:
    """Months and days by the local calendar, the rest as exact time."""
    months, days, rest = parts_of(interval)
    if months.any() or days.any():
        local = local_from_utc(us, timezone)
        if months.any():
            local = add_months(local, sign * months)
        us = utc_from_local(local + sign * days * US_PER_DAY, timezone)
    return us + sign * rest


add_interval = _plus_interval(1)
subtract_interval = _plus_interval(-1)


def date_plus_days(call: KernelCall, a: Value, b: Value) -> pa.Array:
    """date + integer, integer + date."""
    return _move_date(call, a, b, 1)


def date_minus_days(call: KernelCall, a: Value, b: Value) -> pa.Array:
    """date - integer."""
    return _move_date(call, a, b, -1)


def _move_date(call: KernelCall, a: Value, b: Value, sign: int) -> pa.Array:
    from streamsql.functions.compute.columns import with_nulls_at

    if call.arg_types[0].kind is not Kind.DATE:
        a, b = b, a
    days = _us(a, call.num_rows)
    moved = days + sign * _us(b, call.num_rows)
    moved = np.where(np.abs(days) == DATE_INFINITY, days, moved)
    bad = ((moved < -2440588) | (moved >= 2145031949)) & (np.abs(moved) != DATE_INFINITY)
    result = column(np.where(bad, 0, moved).astype(np.int32), pa.date32(), validity(a, b))
    if bad.any():
        call.fail(bad, DatetimeFieldOverflow, "date out of range")
        return with_nulls_at(result, bad)
    return result


def date_minus_date(call: KernelCall, a: Value, b: Value) -> pa.Array:
    """Days between."""
    difference = _us(a, call.num_rows) - _us(b, call.num_rows)
    return column(difference.astype(np.int32), pa.int32(), validity(a, b))


def date_plus_time(call: KernelCall, a: Value, b: Value) -> pa.Array:
    """date + time of day."""
    if call.arg_types[0].kind is not Kind.DATE:
        a, b = b, a
    us = _us(a, call.num_rows) * US_PER_DAY + _us(b, call.num_rows)
    return column(us, call.type.arrow, validity(a, b))


def timestamp_difference(call: KernelCall, a: Value, b: Value) -> pa.Array:
    """timestamp - timestamp: days and time, no months."""
    us = _us(a, call.num_rows) - _us(b, call.num_rows)
    days = np.fix(us / US_PER_DAY).astype(np.int64)
    days = np.where(us < 0, -((-us) // US_PER_DAY), us // US_PER_DAY)
    return from_parts(0, days, us - days * US_PER_DAY, validity(a, b))


def time_difference(call: KernelCall, a: Value, b: Value) -> pa.Array:
    """time - time."""
    us = _us(a, call.num_rows) - _us(b, call.num_rows)
    return from_parts(0, 0, us, validity(a, b))


def _move_time(sign: int) -> Any:
    def kernel(call: KernelCall, a: Value, b: Value) -> pa.Array:
        if call.arg_types[0].kind is Kind.INTERVAL:
            a, b = b, a
        rest = parts_of(b if isinstance(b, pa.Array) else pa.repeat(b, 1))[2]
        us = (_us(a, call.num_rows) + sign * rest) % US_PER_DAY
        return column(us, call.type.arrow, validity(a, b))

    return kernel


time_plus_interval = _move_time(1)
time_minus_interval = _move_time(-1)


# --- intervals ----------------------------------------------------------------------------------
def age(call: KernelCall, a: Value, b: Value) -> pa.Array:
    """Years, months, days and time between two timestamps, by the calendar."""
    n = call.num_rows
    x, y = _us(a, n), _us(b, n)
    if call.arg_types[0].kind is Kind.TIMESTAMPTZ:
        x, y = local_from_utc(x, call.timezone), local_from_utc(y, call.timezone)
    negative = x < y
    later, earlier = np.maximum(x, y), np.minimum(x, y)
    y1, m1, d1 = civil(later // US_PER_DAY)
    y2, m2, d2 = civil(earlier // US_PER_DAY)
    us = later % US_PER_DAY - earlier % US_PER_DAY
    days = d1 - d2 - (us < 0)
    us = us + np.where(us < 0, US_PER_DAY, 0)
    months = (y1 - y2) * 12 + m1 - m2
    short = days < 0
    # a borrowed month has the length of the earlier date's month; of the month before the later
    # one, when the sign is turned
    y3, m3 = np.where(m1 == 1, y1 - 1, y1), np.where(m1 == 1, 12, m1 - 1)
    borrowed = np.where(negative, month_length(y3, m3), month_length(y2, m2))
    days = days + np.where(short, borrowed, 0)
    months = months - short
    sign = np.where(negative, -1, 1)
    return from_parts(sign * months, sign * days, sign * us, validity(a, b))


# --- truncation ---------------------------------------------------------------------------------
_FIXED = {
    "microseconds": 1, "milliseconds": 1000, "second": 1_000_000, "minute": 60_000_000,
    "hour": US_PER_HOUR, "day": US_PER_DAY,
}  # fmt: skip


def truncated(us: Any, unit: str) -> Any | None:
    """Local µs cut to the unit; None for an unknown unit."""
    size = _FIXED.get(unit)
    if size is not None:
        return us if size == 1 else us // size * size
    days = us // US_PER_DAY
    if unit == "week":
        return (days - (days + 3) % 7) * US_PER_DAY
    year, month, _ = civil(days)
    one = np.ones_like(year)
    if unit == "month":
        return days_of(year, month, one) * US_PER_DAY
    if unit == "quarter":
        return days_of(year, (month - 1) // 3 * 3 + 1, one) * US_PER_DAY
    if unit == "year":
        return days_of(year, one, one) * US_PER_DAY
    if unit == "decade":
        return days_of(year // 10 * 10, one, one) * US_PER_DAY
    if unit == "century":
        return days_of((year - 1) // 100 * 100 + 1, one, one) * US_PER_DAY
    if unit == "millennium":
        return days_of((year - 1) // 1000 * 1000 + 1, one, one) * US_PER_DAY
    return None


@constants(0, 2)
def date_trunc(call: KernelCall, field: pa.Scalar, a: Any, zone: Any = None) -> Any:
    """date_trunc of a timestamp (with a zone: by its wall clock)."""
    unit = unit_of(field.as_py())
    us = values(broadcast(a, call.num_rows))
    timezone = None
    if call.type.kind is Kind.TIMESTAMPTZ:
        timezone = call.timezone if zone is None else zone.as_py()
        us = local_from_utc(us, timezone)
    infinite = np.abs(us) == TIMESTAMP_INFINITY
    cut = truncated(np.where(infinite, 0, us) if infinite.any() else us, unit)
    if cut is None:
        shown = call.arg_types[1].kind.value
        message = f'unit "{field.as_py()}" not recognized for type {shown}'
        call.fail(True, InvalidParameterValue, message)
        return pa.scalar(None, call.type.arrow)
    if infinite.any():
        cut = np.where(infinite, us, cut)
    if timezone is not None:
        cut = utc_from_local(cut, timezone)
    return column(cut, call.type.arrow, validity(a))


@constants(0)
def interval_trunc(call: KernelCall, field: pa.Scalar, a: pa.Array) -> Any:
    """date_trunc of an interval."""
    unit = unit_of(field.as_py())
    months, days, us = parts_of(a)
    zero = np.zeros_like(us)
    if unit in _FIXED and unit != "day":
        size = _FIXED[unit]
        cut = np.where(us < 0, -((-us) // size * size), us // size * size)
        return from_parts(months, days, cut, validity(a))
    if unit == "day":
        return from_parts(months, days, zero, validity(a))
    sizes = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1200,
             "millennium": 12000}  # fmt: skip
    step = sizes.get(unit)
    if step is None:
        message = f'unit "{field.as_py()}" not supported for type interval'
        call.fail(True, FeatureNotSupported, message)
        return pa.scalar(None, call.type.arrow)
    cut = np.where(months < 0, -((-months) // step * step), months // step * step)
    return from_parts(cut, zero, zero, validity(a))


def date_bin(call: KernelCall, stride: Value, a: Value, origin: Value) -> Any:
    """The start of the stride-long bin, counted from `origin`, that holds the timestamp."""
    n = call.num_rows
    months, days, us = (np.broadcast_to(x, n) for x in parts(stride))
    size = days * US_PER_DAY + us
    if (months != 0).any():
        message = "timestamps cannot be binned into intervals containing months or years"
        call.fail(months != 0, FeatureNotSupported, message)
    if (size <= 0).any():
        call.fail((size <= 0) & (months == 0), DatetimeFieldOverflow,
                  "stride must be greater than zero")  # fmt: skip
    safe = np.where((size <= 0) | (months != 0), 1, size)
    x, o = _us(a, n), _us(origin, n)
    binned = o + (x - o) // safe * safe
    infinite = np.abs(x) == TIMESTAMP_INFINITY
    return column(np.where(infinite, x, binned), call.type.arrow, validity(stride, a, origin))


# --- zones --------------------------------------------------------------------------------------
@constants(0)
def at_time_zone(call: KernelCall, zone: pa.Scalar, a: Any) -> Any:
    """AT TIME ZONE: timestamptz to the zone's wall clock, or that wall clock to timestamptz."""
    us = values(broadcast(a, call.num_rows))
    name = zone.as_py()
    if name[:1] in ("+", "-") and name[1:2].isdigit():  # a zone of POSIX counts to the west
        name = ("-" if name[0] == "+" else "+") + name[1:]
    try:
        if call.arg_types[1].kind is Kind.TIMESTAMPTZ:
            moved = local_from_utc(us, name)
        else:
            moved = utc_from_local(us, name)
    except InvalidParameterValue as e:
        call.fail(True, InvalidParameterValue, e.message)
        return pa.scalar(None, call.type.arrow)
    return column(moved, call.type.arrow, validity(a))


def at_interval_zone(call: KernelCall, zone: Value, a: Value) -> Any:
    """AT TIME ZONE with an offset given as an interval."""
    offset = parts(zone)[2]
    sign = 1 if call.arg_types[1].kind is Kind.TIMESTAMPTZ else -1
    us = _us(a, call.num_rows) + sign * offset
    return column(us, call.type.arrow, validity(zone, a))


# --- construction -------------------------------------------------------------------------------


def is_finite(call: KernelCall, a: pa.Array) -> Any:
    """isfinite."""
    from streamsql.functions.compute.columns import from_bools

    if call.arg_types[0].kind is Kind.INTERVAL:
        return pc.if_else(a.is_valid(), True, pa.scalar(None, pa.bool_()))
    limit = DATE_INFINITY if call.arg_types[0].kind is Kind.DATE else TIMESTAMP_INFINITY
    return from_bools(np.abs(values(a).astype(np.int64)) != limit, validity(a))


def now(call: KernelCall) -> pa.Array:
    """The evaluator's time."""
    return column(np.array([call.now_us], np.int64), call.type.arrow)


def overlaps(call: KernelCall, a: Value, b: Value, c: Value, d: Value) -> Any:
    """(a, b) OVERLAPS (c, d) of four timestamps; half-open spans, a point is inside of its span."""
    from streamsql.functions.compute.columns import from_bools

    n = call.num_rows
    x1, x2, y1, y2 = (_us(v, n) for v in (a, b, c, d))
    s1, e1 = np.minimum(x1, x2), np.maximum(x1, x2)
    s2, e2 = np.minimum(y1, y2), np.maximum(y1, y2)
    first = np.where(s1 == s2, True, np.where(s1 > s2, s1 < e2, s2 < e1))
    return from_bools(first, validity(a, b, c, d))
