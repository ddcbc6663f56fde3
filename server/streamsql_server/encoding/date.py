"""date: ISO text; days since 2000-01-01."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.types import SqlType
from streamsql_server.encoding.calendar import (
    INT32_MAX,
    PG_EPOCH_DAYS,
    ordinary_days,
    wide_dates,
)
from streamsql_server.encoding.integers import parser
from streamsql_server.encoding.pieces import AnyArray, Encoded, from_fixed, numbers, valid_mask
from streamsql_server.encoding.wire_type import WireContext, WireType

_read_int4 = parser(4)


def _days(column: pa.Array) -> AnyArray:
    filled = column.cast(pa.int32())
    return numbers(filled if not filled.null_count else filled.fill_null(0), np.int32)


def text(column: pa.Array, type_: SqlType, context: WireContext) -> pa.Array:
    """`2024-02-29`, `0044-03-15 BC`, `infinity`."""
    days = _days(column).astype(np.int64)
    ordinary = ordinary_days(days)
    if ordinary.all():
        return column.cast(pa.string())
    out = column.filter(pa.array(ordinary)).cast(pa.string())
    odd = days[~ordinary]
    date, suffix = wide_dates(odd)
    rest = pc.binary_join_element_wise(date, suffix, "")
    rest = pc.if_else(pa.array(odd == INT32_MAX), "infinity", rest)
    rest = pc.if_else(pa.array(odd <= -INT32_MAX), "-infinity", rest)
    spread = pc.replace_with_mask(pa.nulls(len(column), pa.string()), pa.array(ordinary), out)
    return pc.replace_with_mask(spread, pa.array(~ordinary), rest)


def binary(column: pa.Array, type_: SqlType) -> Encoded:
    """Four bytes; infinity is the largest and the smallest number."""
    days = _days(column)
    values = (days.astype(np.int64) - PG_EPOCH_DAYS).astype(">i4")
    odd = np.abs(days.astype(np.int64)) >= INT32_MAX
    if odd.any():
        values[odd] = np.where(days[odd] > 0, INT32_MAX, -INT32_MAX - 1)
    return from_fixed(values, valid_mask(column))


def parse_binary(data: bytes) -> Any:
    """A date; text where Python has none (infinity, years beyond 1 to 9999)."""
    days = _read_int4(data)
    if days in (INT32_MAX, -INT32_MAX - 1):
        return "infinity" if days > 0 else "-infinity"
    since_1970 = days + PG_EPOCH_DAYS
    if ordinary_days(np.array([since_1970]))[0]:
        return datetime.date(1970, 1, 1) + datetime.timedelta(since_1970)
    date, suffix = wide_dates(np.array([since_1970]))
    return date[0].as_py() + suffix[0].as_py()


def _text_value(value: datetime.date) -> str:
    return value.isoformat()


DATE = WireType(1082, "date", 4, 1182, text, binary, parse_binary, _text_value, plain=True)
