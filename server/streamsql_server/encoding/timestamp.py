"""timestamp and timestamptz: ISO text, the latter in the session's zone; µs since 2000-01-01."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.types import SqlType
from streamsql_server.encoding import zones
from streamsql_server.encoding.calendar import (
    DAY_US,
    INT64_MAX,
    PG_EPOCH_US,
    clock_text,
    ordinary_us,
    padded,
    wide_dates,
)
from streamsql_server.encoding.integers import parser
from streamsql_server.encoding.pieces import (
    AnyArray,
    BoolArray,
    Encoded,
    from_fixed,
    numbers,
    valid_mask,
)
from streamsql_server.encoding.wire_type import WireContext, WireType

_read_int8 = parser(8)
_UTC_NAMES = frozenset({"utc", "etc/utc", "gmt", "zulu", "uct", "universal"})
_INFINITE = INT64_MAX - DAY_US * 400  # what lies beyond is infinity in one spelling or another


def _micros(column: pa.Array, valid: BoolArray | None) -> AnyArray:
    us = column.cast(pa.int64())
    return numbers(us if valid is None else us.fill_null(0), "<i8")


def _local_text(us: AnyArray, suffix: pa.Array | str) -> pa.Array:
    """Text of local µs since 1970 (int64 [n]), `suffix` (the zone) before a possible ` BC`."""
    ordinary = ordinary_us(us)
    if ordinary.all():
        if not (us % 1_000_000).any():
            out = pa.array(us // 1_000_000, pa.timestamp("s")).cast(pa.string())
        else:
            shown = pa.array(us, pa.timestamp("us")).cast(pa.string())
            out = pc.ascii_rtrim(pc.ascii_rtrim(shown, "0"), ".")
        if isinstance(suffix, str) and not suffix:
            return out
        return pc.binary_join_element_wise(out, suffix, "")
    days = us // DAY_US
    date, era = wide_dates(days)
    clock = clock_text(us - days * DAY_US)
    return pc.binary_join_element_wise(date, " ", clock, suffix, era, "")


def _finish(out: pa.Array, us: AnyArray, valid: BoolArray | None) -> pa.Array:
    infinite = np.abs(us) > _INFINITE
    if infinite.any():
        out = pc.if_else(pa.array(infinite & (us > 0)), "infinity", out)
        out = pc.if_else(pa.array(infinite & (us < 0)), "-infinity", out)
    return out if valid is None else pc.if_else(pa.array(valid), out, pa.scalar(None, pa.string()))


def timestamp_text(column: pa.Array, type_: SqlType, context: WireContext) -> pa.Array:
    """`2024-02-29 12:00:00.5`."""
    valid = valid_mask(column)
    us = _micros(column, valid)
    return _finish(_local_text(us, ""), us, valid)


def timestamptz_text(column: pa.Array, type_: SqlType, context: WireContext) -> pa.Array:
    """Local time and offset: `2024-02-29 13:00:00+01`."""
    valid = valid_mask(column)
    us = _micros(column, valid)
    if context.timezone.lower() in _UTC_NAMES:
        return _finish(_local_text(us, "+00"), us, valid)
    offset_s = zones.offsets(us, context.timezone)
    finite = np.abs(us) <= _INFINITE
    local = np.where(finite, us + offset_s * 1_000_000, us)
    return _finish(_local_text(local, _offset_text(offset_s)), us, valid)


def _offset_text(offset_s: AnyArray) -> pa.Array:
    """`+01`, `-05:30`, `+00:09:21`: few distinct values, spread over the rows."""
    distinct, index = np.unique(offset_s, return_inverse=True)
    size = np.abs(distinct)
    hours = padded(size // 3600, 2)
    minutes, seconds = size // 60 % 60, size % 60
    tail = pc.if_else(
        pa.array((minutes != 0) | (seconds != 0)),
        pc.binary_join_element_wise(":", padded(minutes, 2), ""),
        "",
    )
    odd = pc.if_else(
        pa.array(seconds != 0), pc.binary_join_element_wise(":", padded(seconds, 2), ""), ""
    )
    sign = pc.if_else(pa.array(distinct < 0), "-", "+")
    return pc.binary_join_element_wise(sign, hours, tail, odd, "").take(pa.array(index))


def binary(column: pa.Array, type_: SqlType) -> Encoded:
    """Eight bytes; infinity is the largest and the smallest number."""
    valid = valid_mask(column)
    us = _micros(column, valid)
    infinite = np.abs(us) > _INFINITE
    values = np.where(infinite, 0, us) - PG_EPOCH_US
    if infinite.any():
        values[infinite] = np.where(us[infinite] > 0, INT64_MAX, -INT64_MAX - 1)
    return from_fixed(values.astype(">i8"), valid)


def _parser(zone: datetime.timezone | None) -> Any:
    def parse_binary(data: bytes) -> Any:
        value = _read_int8(data)
        if value in (INT64_MAX, -INT64_MAX - 1):
            return "infinity" if value > 0 else "-infinity"
        us = value + PG_EPOCH_US
        if ordinary_us(np.array([us]))[0]:
            start = datetime.datetime(1970, 1, 1, tzinfo=zone)
            return start + datetime.timedelta(microseconds=us)
        return _local_text(np.array([us]), "+00" if zone else "")[0].as_py()

    return parse_binary


def _text_value(value: datetime.datetime) -> str:
    shown = value.isoformat(" ")
    return shown.rstrip("0") if value.microsecond else shown


TIMESTAMP = WireType(
    1114, "timestamp", 8, 1115, timestamp_text, binary, _parser(None), _text_value, plain=True
)
TIMESTAMPTZ = WireType(
    1184, "timestamptz", 8, 1185, timestamptz_text, binary, _parser(datetime.UTC), plain=True
)
