"""Finding spans (`low <= x AND high >= y` over two columns of a row) by their start and length.

Algebra:  a row's span is [low, high]. Sought are rows with low <= x and high >= y: with x = y the
          spans that hold a point, else those that overlap [y, x]. By their starts alone half of all
          rows would be tried. Rows are grouped by the binary length class of high - low: of a span
          shorter than 2^c that ends at y or later the start is above y - 2^c, so that each class is
          one stretch of starts, at most about twice as long as what it has to give.
Cost:     O(classes that have rows x log rows + rows in those stretches), at most 64 classes.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamsql.core.delta import Int64Array
from streamsql.core.types import Kind, SqlType
from streamsql.operators.columns import int64_values

CLASSES = 64
NUMERIC_DIGITS_MAX = 18
"""Digits of a NUMERIC whose values are whole numbers of 64 bits when counted in its last place."""


def is_spanned(type_: SqlType) -> bool:
    """Can spans of the type be measured: are its values whole numbers in memory?"""
    if type_.kind is Kind.NUMERIC:
        return bool(pa.types.is_decimal(type_.arrow)) and (
            type_.arrow.precision <= NUMERIC_DIGITS_MAX
        )
    return type_.is_integer or type_.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.DATE)


def whole_numbers(column: pa.Array) -> Int64Array:
    """The values (none NULL) as int64: µs, days, or units of the last decimal place."""
    if pa.types.is_decimal(column.type):
        words = np.frombuffer(column.buffers()[1], np.int64)[:: column.type.byte_width // 8]
        return words[column.offset : column.offset + len(column)].copy()
    return int64_values(column)


def length_class(low: Int64Array, high: Int64Array) -> Int64Array:
    """The number of bits of each span's length: int64[n], 0 (empty or a point) to 63."""
    length = high - low
    # lengths beyond 64 bits turn negative
    length[(high > low) & (length < 0)] = np.iinfo(np.int64).max
    bits = np.zeros(length.size, np.int64)
    rest = np.maximum(length, 0)
    for step in (32, 16, 8, 4, 2, 1):
        large = rest >> np.int64(step) > 0
        bits[large] += step
        rest[large] >>= np.int64(step)
    return bits + (rest > 0)


def earliest(ends: Int64Array, bits: int) -> Int64Array:
    """The first start that a span of this class can have that ends at `ends` or later."""
    bottom = np.iinfo(np.int64).min
    if bits == CLASSES - 1:
        return np.full(ends.size, bottom)
    longest = np.int64((1 << bits) - 1)
    return np.where(ends < bottom + longest, bottom, ends - longest)
