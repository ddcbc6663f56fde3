"""numeric: base-10000 digits.

A NUMERIC with a known scale shows all its decimals. A bare NUMERIC is stored with ten, and a
computed one with as many as fit; their trailing zeros are not shown, since nobody asked for them.
"""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from streamsql.core.types import SqlType
from streamsql_server.encoding.pieces import (
    AnyArray,
    Encoded,
    Pieces,
    binary_array,
    valid_mask,
)
from streamsql_server.encoding.wire_type import WireType

MAX_PRECISION = 38
BASE_DIGITS = 4
BASE = 10**BASE_DIGITS
POSITIVE, NEGATIVE, NAN, INFINITY, MINUS_INFINITY = 0x0000, 0x4000, 0xC000, 0xD000, 0xF000


def _as_decimal(column: pa.Array) -> pa.Array:
    """Catalog and computed columns may come in as integers."""
    return column if pa.types.is_decimal(column.type) else column.cast(pa.decimal128(38, 0))


def hides_zeros(type_: SqlType) -> bool:
    """Are trailing zeros only storage? (The same rule as in casts to text.)"""
    if type_.precision is None:
        return True
    return not type_.constrained and type_.precision == MAX_PRECISION


# --- binary ---------------------------------------------------------------------------------------
def binary(column: pa.Array, type_: SqlType) -> Encoded:
    """Digit count, weight, sign, display scale, digits; all 16-bit."""
    column = _as_decimal(column)
    n, scale = len(column), column.type.scale
    groups, whole_groups, negative = _digit_groups(column, scale)
    some = groups != 0
    any_digit = some.any(axis=1)
    width = groups.shape[1]
    first = np.where(any_digit, some.argmax(axis=1), 0)
    last = np.where(any_digit, width - 1 - some[:, ::-1].argmax(axis=1), -1)
    count = last - first + 1
    out = np.empty((n, 4 + width), ">u2")
    out[:, 0] = count
    out[:, 1] = np.where(any_digit, whole_groups - 1 - first, 0).astype(np.int16).view(np.uint16)
    out[:, 2] = np.where(negative & any_digit, NEGATIVE, POSITIVE)
    out[:, 3] = _shown_scale(groups, last, whole_groups) if hides_zeros(type_) else scale
    out[:, 4:] = groups
    index = np.arange(width)
    keep = np.ones((n, 4 + width), bool)
    keep[:, 4:] = (index >= first[:, None]) & (index <= last[:, None])
    offsets = np.zeros(n + 1, np.int64)
    np.cumsum(8 + 2 * count, out=offsets[1:])
    return Pieces(binary_array(offsets, out[keep]), column)


def _digit_groups(column: pa.Array, scale: int) -> tuple[AnyArray, int, AnyArray]:
    """Base-10000 digits [n, groups] uint16, the most significant first, aligned at the point;
    how many groups stand before the point; which values are negative."""
    raw = np.frombuffer(column.buffers()[1], np.uint64)
    raw = raw[2 * column.offset : 2 * (column.offset + len(column))].reshape(-1, 2)
    low, high = raw[:, 0].copy(), raw[:, 1].copy()
    negative = high >> np.uint64(63) != 0
    low[negative] = ~low[negative] + np.uint64(1)
    high[negative] = ~high[negative] + (low[negative] == 0)
    valid = valid_mask(column)
    if valid is not None:
        low[~valid] = 0
        high[~valid] = 0
    limbs = [low] if not high.any() else _limbs(low, high)
    found: list[AnyArray] = []  # least significant first
    partial = scale % BASE_DIGITS
    if partial:  # the last group holds fewer than four decimals
        limbs, digit = _divide(limbs, 10**partial)
        found.append(digit * np.uint64(10 ** (BASE_DIGITS - partial)))
    while len(found) * BASE_DIGITS < scale or any(limb.any() for limb in limbs):
        limbs, digit = _divide(limbs, BASE)
        found.append(digit)
    fraction_groups = -(-scale // BASE_DIGITS)
    if not found:
        found.append(np.zeros(len(low), np.uint64))
    groups = np.stack(found[::-1], axis=1).astype(np.uint16)
    return groups, len(found) - fraction_groups, negative


def _limbs(low: AnyArray, high: AnyArray) -> list[AnyArray]:
    """128 bits as four times 32, the most significant first."""
    mask, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    return [high >> shift, high & mask, low >> shift, low & mask]


def _divide(limbs: list[AnyArray], divisor: int) -> tuple[list[AnyArray], AnyArray]:
    """Long division of [n] numbers by a small one: quotient limbs and remainder."""
    by = np.uint64(divisor)
    if len(limbs) == 1:
        quotient = limbs[0] // by
        return [quotient], limbs[0] - quotient * by
    rest = np.zeros_like(limbs[0])
    quotients = []
    for limb in limbs:
        value = (rest << np.uint64(32)) | limb
        quotient = value // by
        rest = value - quotient * by
        quotients.append(quotient)
    return quotients, rest


def _shown_scale(groups: AnyArray, last: AnyArray, whole_groups: int) -> AnyArray:
    """Decimals up to the last one that is not zero, per row."""
    digit = groups[np.arange(len(groups)), np.maximum(last, 0)].astype(np.int64)
    zeros = sum((digit % 10**k == 0).astype(np.int64) for k in (1, 2, 3))
    decimals = (last - whole_groups + 1) * BASE_DIGITS - zeros
    return np.maximum(decimals, 0)


# --- parameters -----------------------------------------------------------------------------------
def parse_binary(data: bytes) -> Any:
    """Decimal with the scale that the client gave."""
    count, weight, sign, scale = struct.unpack_from("!hhHH", data)
    special = {NAN: "NaN", INFINITY: "Infinity", MINUS_INFINITY: "-Infinity"}.get(sign)
    if special is not None:
        return Decimal(special)
    if sign not in (POSITIVE, NEGATIVE) or len(data) != 8 + 2 * count:
        raise ValueError("invalid numeric")
    digits = struct.unpack_from(f"!{count}h", data, 8)
    if any(not 0 <= digit < BASE for digit in digits):
        raise ValueError("invalid digit in numeric")
    whole = [digits[i] if i < count else 0 for i in range(weight + 1)]
    fraction = [0] * max(0, -weight - 1) + list(digits[max(0, weight + 1) :])
    shown = "".join(f"{digit:04d}" for digit in fraction)[:scale].ljust(scale, "0")
    head = "".join(f"{digit:04d}" for digit in whole).lstrip("0") or "0"
    minus = "-" if sign == NEGATIVE else ""
    return Decimal(f"{minus}{head}.{shown}" if scale else f"{minus}{head}")


NUMERIC = WireType(1700, "numeric", -1, 1231, binary, parse_binary, plain=True)
