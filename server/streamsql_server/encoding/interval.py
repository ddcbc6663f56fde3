"""interval: `1 year 2 mons -3 days 04:05:06.7`; µs, days, months."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.types import SqlType
from streamsql_server.encoding.calendar import padded
from streamsql_server.encoding.pieces import AnyArray, BoolArray, Encoded, from_fixed, valid_mask
from streamsql_server.encoding.wire_type import WireContext, WireType

_ARROW_LAYOUT = np.dtype([("months", "<i4"), ("days", "<i4"), ("ns", "<i8")])
_WIRE_LAYOUT = np.dtype([("us", ">i8"), ("days", ">i4"), ("months", ">i4")])


def _parts(column: pa.Array, valid: BoolArray | None) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Months, days, µs; int64 [n], 0 where NULL."""
    raw = np.frombuffer(column.buffers()[1], _ARROW_LAYOUT)
    raw = raw[column.offset : column.offset + len(column)]
    months, days = raw["months"].astype(np.int64), raw["days"].astype(np.int64)
    us = raw["ns"] // 1000
    if valid is not None:
        months, days, us = (np.where(valid, part, 0) for part in (months, days, us))
    return months, days, us


def text(column: pa.Array, type_: SqlType, context: WireContext) -> pa.Array:
    """IntervalStyle postgres: parts that are zero are left out; a positive part after a negative
    one carries a plus."""
    valid = valid_mask(column)
    months, days, us = _parts(column, valid)
    years = np.trunc(months / 12).astype(np.int64)
    blank = np.ones(len(months), bool)  # nothing written yet
    negative = np.zeros(len(months), bool)  # the last part written was negative
    out: list[pa.Array] = []
    for values, unit in ((years, "year"), (months - years * 12, "mon"), (days, "day")):
        there = values != 0
        if there.any():
            out.append(_named_part(values, unit, there, blank, negative))
            negative = np.where(there, values < 0, negative)
            blank = blank & ~there
    out.append(_clock_part(us, blank | (us != 0), blank, negative))
    joined = pc.binary_join_element_wise(*out, "")
    if valid is None:
        return joined
    return pc.if_else(pa.array(valid), joined, pa.scalar(None, pa.string()))


def _prefix(blank: BoolArray, plus: BoolArray) -> pa.Array:
    space = pc.if_else(pa.array(blank), "", " ")
    return pc.binary_join_element_wise(space, pc.if_else(pa.array(plus), "+", ""), "")


def _named_part(
    values: AnyArray, unit: str, there: BoolArray, blank: BoolArray, negative: BoolArray
) -> pa.Array:
    ending = pc.if_else(pa.array(values == 1), f" {unit}", f" {unit}s")
    shown = pc.binary_join_element_wise(
        _prefix(blank, negative & (values > 0)), pa.array(values).cast(pa.string()), ending, ""
    )
    return pc.if_else(pa.array(there), shown, "")


def _clock_part(us: AnyArray, there: BoolArray, blank: BoolArray, negative: BoolArray) -> pa.Array:
    if not there.any():
        return pa.array([""] * len(us), pa.string())
    size = np.abs(us)
    seconds = size // 1_000_000
    shown = pc.binary_join_element_wise(
        padded(seconds // 3600, 2), padded(seconds // 60 % 60, 2), padded(seconds % 60, 2), ":"
    )
    fraction = size % 1_000_000
    if fraction.any():
        decimals = pc.ascii_rtrim(padded(fraction, 6), "0")
        point = pc.if_else(pa.array(fraction > 0), ".", "")
        shown = pc.binary_join_element_wise(shown, point, decimals, "")
    sign = pc.if_else(pa.array(us < 0), "-", pc.if_else(pa.array(negative), "+", ""))
    prefix = _prefix(blank, np.zeros(len(us), bool))
    return pc.if_else(pa.array(there), pc.binary_join_element_wise(prefix, sign, shown, ""), "")


def binary(column: pa.Array, type_: SqlType) -> Encoded:
    """Sixteen bytes."""
    valid = valid_mask(column)
    values = np.empty(len(column), _WIRE_LAYOUT)
    values["months"], values["days"], values["us"] = _parts(column, valid)
    return from_fixed(values, valid)


def parse_binary(data: bytes) -> str:
    """Text with the three parts, as Python has no type for months.

    >>> parse_binary(struct.pack("!qii", -1_500_000, 2, 14))
    '14 months 2 days -1500000 microseconds'
    """
    us, days, months = struct.unpack("!qii", data)
    return f"{months} months {days} days {us} microseconds"


INTERVAL = WireType(1186, "interval", 16, 1187, text, binary, parse_binary)
