"""extract, date_part and the one-word functions (hour, year, …) over whole columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.errors import InvalidParameterValue
from streamsql.core.types import Kind
from streamsql.functions.compute.columns import column, decimal_words, validity, values
from streamsql.functions.compute.datetimes import civil, days_of
from streamsql.functions.compute.grouped import constants
from streamsql.functions.compute.intervals import parts_of
from streamsql.functions.compute.zones import local_from_utc
from streamsql.functions.definitions import KernelCall
from streamsql.functions.textio.calendar import DATE_INFINITY, TIMESTAMP_INFINITY, US_PER_DAY
from streamsql.functions.textio.output import zone_offsets
from streamsql.functions.units import SCALES, unit_of

DATE_FIELDS = frozenset(
    [
        "day",
        "month",
        "quarter",
        "year",
        "decade",
        "century",
        "millennium",
        "week",
        "isoyear",
        "dow",
        "isodow",
        "doy",
        "julian",
    ]
)


def _iso(days: Any) -> tuple[Any, Any]:
    """(ISO year, ISO week)."""
    thursday = days - (days + 3) % 7 + 3
    year, _, _ = civil(thursday)
    first = days_of(year, np.ones_like(year), np.ones_like(year))
    return year, (thursday - first) // 7 + 1


def _date_field(days: Any, field: str) -> Any | None:
    if field == "dow":
        return (days + 4) % 7
    if field == "isodow":
        return (days + 3) % 7 + 1
    if field == "julian":
        return days + 2440588
    if field in ("week", "isoyear"):
        year, week = _iso(days)
        return week if field == "week" else np.where(year <= 0, year - 1, year)
    year, month, day = civil(days)
    if field == "doy":
        return days - days_of(year, np.ones_like(year), np.ones_like(year)) + 1
    if field == "day":
        return day
    if field == "month":
        return month
    if field == "quarter":
        return (month - 1) // 3 + 1
    shown = np.where(year <= 0, year - 1, year)  # there is no year 0
    if field == "year":
        return shown
    if field == "decade":
        return year // 10
    if field == "century":
        return np.where(shown > 0, (shown + 99) // 100, -((99 - shown) // 100))
    if field == "millennium":
        return np.where(shown > 0, (shown + 999) // 1000, -((999 - shown) // 1000))
    return None


def _clock_field(us: Any, field: str) -> Any | None:
    """Fields of a time of day (µs, may be negative for intervals); scaled by SCALES."""
    sign = np.where(us < 0, -1, 1)
    size = np.abs(us)
    if field == "hour":
        return sign * (size // 3_600_000_000)
    if field == "minute":
        return sign * (size // 60_000_000 % 60)
    if field in ("second", "microseconds", "milliseconds"):
        return sign * (size % 60_000_000)  # µs: the point is put at 6, 0 or 3
    return None


def unscaled_field(call: KernelCall, a: pa.Array, field: str) -> Any | None:
    """int64 [n]: the field times 10^SCALES[field]; None if the type has no such field."""
    kind = call.arg_types[1].kind if len(call.arg_types) > 1 else call.arg_types[0].kind
    if kind is Kind.INTERVAL:
        return _interval_field(a, field)
    raw = values(a).astype(np.int64)
    if kind is Kind.DATE:
        if field == "epoch":
            return raw * US_PER_DAY
        return _date_field(raw, field) if field in DATE_FIELDS else None
    if kind is Kind.TIME:
        return raw if field == "epoch" else _clock_field(raw, field)
    if field == "epoch":
        return raw
    local = raw
    if kind is Kind.TIMESTAMPTZ:
        if field.startswith("timezone"):
            offset = zone_offsets(raw, call.timezone)
            sign = np.where(offset < 0, -1, 1)
            if field == "timezone":
                return offset
            part = np.abs(offset) // 3600 if field == "timezone_hour" else np.abs(offset) // 60 % 60
            return sign * part
        local = local_from_utc(raw, call.timezone)
    if field == "hour":  # floor division: times before 1970 count up within their day, too
        hours = local // 3_600_000_000
        return hours - hours // 24 * 24
    if field == "minute":
        minutes = local // 60_000_000
        return minutes - minutes // 60 * 60
    found = _clock_field(local % US_PER_DAY, field)
    if found is not None:
        return found
    return _date_field(local // US_PER_DAY, field)


def _interval_field(a: pa.Array, field: str) -> Any | None:
    months, days, us = parts_of(a)
    if field == "epoch":  # a year is 365.25 days, a month 30
        years, rest = np.trunc(months / 12).astype(np.int64), np.fmod(months, 12)
        return years * 31_557_600_000_000 + rest * 2_592_000_000_000 + days * US_PER_DAY + us
    sign = np.where(months < 0, -1, 1)
    size = np.abs(months)
    if field == "year":
        return sign * (size // 12)
    if field == "month":
        return sign * (size % 12)
    if field == "quarter":
        return sign * (size % 12) // 3 + 1
    if field in ("decade", "century", "millennium"):
        years = {"decade": 10, "century": 100, "millennium": 1000}[field]
        return sign * (size // 12 // years)
    if field == "day":
        return days
    return _clock_field(us, field)


def _finite(call: KernelCall, a: pa.Array) -> Any:
    """Validity with infinite dates left out: they have no fields."""
    kind = call.arg_types[-1].kind
    raw = values(a) if kind in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ) else None
    if raw is None:
        return validity(a)
    limit = DATE_INFINITY if kind is Kind.DATE else TIMESTAMP_INFINITY
    infinite = np.abs(raw.astype(np.int64)) == limit
    if not infinite.any():
        return validity(a)
    from streamsql.functions.compute.columns import valid_mask, validity_from

    valid = valid_mask(a)
    return validity_from(~infinite if valid is None else valid & ~infinite)


@constants(0)
def extract(call: KernelCall, field: pa.Scalar, a: Any) -> Any:
    """extract(field from x): NUMERIC with the field's decimals."""
    from streamsql.functions.compute import decimal_loops

    name = unit_of(field.as_py())
    if name == "julian" and _has_clock(call):
        return _julian_moments(call, a)
    found = unscaled_field(call, a, name)
    if found is None:
        return _unknown(call, field.as_py(), name)
    out = np.empty((len(a), 2), np.uint64)
    decimal_loops.int_to_decimal(np.ascontiguousarray(found, np.int64), out)
    scale = SCALES.get(name, 0)
    made = column(out, pa.decimal128(call.type.arrow.precision, scale), _finite(call, a))
    if scale == call.type.arrow.scale:
        return made
    from streamsql.core.types import numeric
    from streamsql.functions.compute import decimals

    inner = KernelCall(len(a), call.type, (numeric(38, scale),))
    return decimals.rescale(inner, made)


@constants(0)
def date_part(call: KernelCall, field: pa.Scalar, a: Any) -> Any:
    """date_part(field, x): the same as double precision."""
    name = unit_of(field.as_py())
    found = unscaled_field(call, a, name)
    if found is None:
        return _unknown(call, field.as_py(), name)
    if name == "julian" and _has_clock(call):
        days, us = _local_days(call, a)
        return column(days + 2440588 + us / US_PER_DAY, pa.float64(), _finite(call, a))
    if name == "epoch" and call.arg_types[1].kind is Kind.INTERVAL:
        return column(_epoch_seconds(a), pa.float64(), _finite(call, a))
    scale = SCALES.get(name, 0)
    return column(found / 10.0**scale, pa.float64(), _finite(call, a))


def _epoch_seconds(a: pa.Array) -> Any:
    """float64 [n]: an interval's seconds, added in PostgreSQL's order (its last digit tells)."""
    months, days, us = parts_of(a)
    seconds = us / 1_000_000.0
    seconds = seconds + 31_557_600.0 * np.trunc(months / 12)
    seconds = seconds + 2_592_000.0 * np.fmod(months, 12)
    return seconds + 86_400.0 * days


def _has_clock(call: KernelCall) -> bool:
    return call.arg_types[1].kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ)


def _local_days(call: KernelCall, a: pa.Array) -> tuple[Any, Any]:
    """(days since 1970, µs of that day) of the session's clock."""
    local = values(a).astype(np.int64)
    if call.arg_types[1].kind is Kind.TIMESTAMPTZ:
        local = local_from_utc(local, call.timezone)
    return local // US_PER_DAY, local % US_PER_DAY


def _julian_moments(call: KernelCall, a: pa.Array) -> pa.Array:
    """extract(julian FROM timestamp): Julian day and the part of it that has passed, as
    numeric(28, 20)."""
    days, us = _local_days(call, a)
    # long division by a day, eight digits a step: each step's product fits an int64
    high, rest = us * 10**8 // US_PER_DAY, us * 10**8 % US_PER_DAY
    low, rest = rest * 10**8 // US_PER_DAY, rest * 10**8 % US_PER_DAY
    last = (rest * 10**4 + US_PER_DAY // 2) // US_PER_DAY
    whole = pa.decimal128(10, 0)
    parts = [_decimal(days + 2440588, whole), _decimal(high, whole), _decimal(low, whole),
             _decimal(last, whole)]  # fmt: skip
    total: Any = parts[0]
    for part, digits in zip(parts[1:], (8, 8, 4), strict=True):
        shifted = pc.multiply(total, pa.scalar(10**digits, pa.decimal128(digits + 1, 0)))
        total = pc.add(shifted.cast(pa.decimal128(28, 0)), part).cast(pa.decimal128(28, 0))
    words = decimal_words(total)
    return column(words, pa.decimal128(call.type.arrow.precision, call.type.arrow.scale),
                  _finite(call, a))  # fmt: skip


def _decimal(numbers: Any, t: pa.DataType) -> pa.Array:
    return (
        column(np.ascontiguousarray(numbers, np.int64), pa.int64())
        .cast(pa.decimal128(19, 0))
        .cast(t)
    )


def integer_field(name: str) -> Any:
    """Flink's HOUR(ts) and kin: BIGINT."""

    def kernel(call: KernelCall, a: pa.Array) -> Any:
        found = unscaled_field(call, a, name)
        assert found is not None
        if name == "second":
            found = found // 1_000_000
        if name == "dow":
            found = found + 1
        return column(np.ascontiguousarray(found, np.int64), pa.int64(), _finite(call, a))

    return kernel


year = integer_field("year")
quarter = integer_field("quarter")
month = integer_field("month")
week = integer_field("week")
dayofyear = integer_field("doy")
dayofmonth = integer_field("day")
dayofweek = integer_field("dow")
hour = integer_field("hour")
minute = integer_field("minute")
second = integer_field("second")


def _unknown(call: KernelCall, text: str, name: str) -> pa.Scalar:
    from streamsql.core.errors import FeatureNotSupported

    known = DATE_FIELDS | set(SCALES) | {"hour", "minute", "microseconds"}
    known |= {"timezone", "timezone_hour", "timezone_minute"}
    shown = call.arg_types[1].kind.value
    if name in known:
        message = f'unit "{text}" not supported for type {shown}'
        call.fail(True, FeatureNotSupported, message)
    else:
        call.fail(True, InvalidParameterValue, f'unit "{text}" not recognized for type {shown}')
    return pa.scalar(None, call.type.arrow)
