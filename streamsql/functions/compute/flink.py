"""Kernels of functions that Flink, RisingWave and ksqlDB have and PostgreSQL has not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from streamsql.core.errors import InvalidParameterValue
from streamsql.core.types import Kind
from streamsql.functions.compute import texts
from streamsql.functions.compute.columns import Value, broadcast, column, validity, values
from streamsql.functions.compute.datetimes import add_months, checked_stamps, civil
from streamsql.functions.compute.grouped import constants
from streamsql.functions.compute.zones import local_from_utc, utc_from_local
from streamsql.functions.definitions import KernelCall
from streamsql.functions.textio.calendar import US_PER_DAY
from streamsql.functions.units import unit_of

_UNITS = "Units are SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, QUARTER and YEAR."


def locate(call: KernelCall, needle: Value, a: Value) -> Any:
    """LOCATE(needle, text)."""
    return texts.position(call, broadcast(a, call.num_rows), needle)


@constants(1)
def from_epoch(call: KernelCall, a: pa.Array, precision: Any = None) -> Any:
    """TO_TIMESTAMP_LTZ(number, precision): seconds at 0, milliseconds at 3, microseconds at 6."""
    places = 3 if precision is None else precision.as_py()
    if places not in (0, 3, 6):
        what = "It says what the number counts: seconds, milliseconds or microseconds."
        call.fail(True, InvalidParameterValue, "precision must be 0, 3 or 6", what)
        return pa.scalar(None, call.type.arrow)
    us = values(a).astype(np.int64) * 10 ** (6 - places)
    return checked_stamps(call, us, a)


def unix_seconds(call: KernelCall, a: pa.Array) -> Any:
    """UNIX_TIMESTAMP(ts): whole seconds since 1970."""
    us = values(a)
    if call.arg_types[0].kind is Kind.TIMESTAMP:
        us = utc_from_local(us, call.timezone)
    return column(us // 1_000_000, pa.int64(), validity(a))


def unix_milliseconds(call: KernelCall, a: pa.Array) -> Any:
    """Milliseconds since 1970."""
    us = values(a)
    if call.arg_types[0].kind is Kind.TIMESTAMP:
        us = utc_from_local(us, call.timezone)
    return column(us // 1000, pa.int64(), validity(a))


_SIZES = {
    "microseconds": 1, "milliseconds": 1000, "second": 1_000_000, "minute": 60_000_000,
    "hour": 3_600_000_000, "day": US_PER_DAY, "week": 7 * US_PER_DAY,
}  # fmt: skip
_MONTHS = {"month": 1, "quarter": 3, "year": 12}


@constants(0)
def timestampadd(call: KernelCall, unit: pa.Scalar, n: Value, a: Value) -> Any:
    """TIMESTAMPADD(unit, n, ts)."""
    name = unit_of(unit.as_py())
    us = values(broadcast(a, call.num_rows)).astype(np.int64)
    if call.arg_types[2].kind is Kind.DATE:
        us = us * US_PER_DAY
    count = values(broadcast(n, call.num_rows)).astype(np.int64)
    if name in _SIZES:
        return checked_stamps(call, us + count * _SIZES[name], n, a)
    if name not in _MONTHS:
        call.fail(True, InvalidParameterValue, f'unit "{unit.as_py()}" not recognized', _UNITS)
        return pa.scalar(None, call.type.arrow)
    months = count * _MONTHS[name]
    if call.type.kind is Kind.TIMESTAMPTZ:
        local = add_months(local_from_utc(us, call.timezone), months)
        return checked_stamps(call, utc_from_local(local, call.timezone), n, a)
    return checked_stamps(call, add_months(us, months), n, a)


@constants(0)
def timestampdiff(call: KernelCall, unit: pa.Scalar, a: Value, b: Value) -> Any:
    """TIMESTAMPDIFF(unit, a, b): whole units from a to b."""
    name = unit_of(unit.as_py())
    n = call.num_rows
    x, y = (values(broadcast(v, n)).astype(np.int64) for v in (a, b))
    if call.arg_types[1].kind is Kind.DATE:
        x = x * US_PER_DAY
    if call.arg_types[2].kind is Kind.DATE:
        y = y * US_PER_DAY
    if name in _SIZES:
        span = y - x
        size = _SIZES[name]
        whole = np.where(span < 0, -((-span) // size), span // size)
        return column(whole, pa.int64(), validity(a, b))
    if name not in _MONTHS:
        call.fail(True, InvalidParameterValue, f'unit "{unit.as_py()}" not recognized', _UNITS)
        return pa.scalar(None, call.type.arrow)
    low, high = np.minimum(x, y), np.maximum(x, y)
    y1, m1, _ = civil(low // US_PER_DAY)
    y2, m2, _ = civil(high // US_PER_DAY)
    months = (y2 - y1) * 12 + m2 - m1
    months = months - (add_months(low, months) > high)
    whole = months // _MONTHS[name]
    return column(np.where(x <= y, whole, -whole), pa.int64(), validity(a, b))


@constants(1)
def count_char(call: KernelCall, a: pa.Array, c: pa.Scalar) -> Any:
    """Nexmark's COUNT_CHAR(text, c): occurrences of a character."""
    import pyarrow.compute as pc

    from streamsql.functions.compute import text_loops
    from streamsql.functions.compute.columns import text_buffers

    wanted = c.as_py()
    raw = wanted.encode()
    if len(raw) != 1:
        return pc.count_substring(a, wanted).cast(pa.int64())
    offsets, data = text_buffers(a)
    out = np.empty(len(a), np.int64)
    text_loops.count_byte(offsets, data, raw[0], out)
    return column(out, pa.int64(), validity(a))
