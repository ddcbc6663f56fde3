"""ORDER BY columns as int64 words that compare like the values, and back.

By column: a word for NULL (where NULLs stand), then the value: one word for numbers, dates, times
and booleans; two for decimals and intervals; for text its first 8 bytes and its slot in a text
pool. Descending columns have their words turned round. Equality of words is SQL equality: 0.0 is
-0.0, one NaN (above all numbers), '1 month' is '30 days'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamsql.kernels.bits import (
    bit,
    load_f32,
    load_f64,
    load_i32,
    load_i64,
    load_integer,
    store_i32,
    store_i64,
)
from streamsql.kernels.bits import bits_of as _bits_of
from streamsql.kernels.bits import float_of as _float_of
from streamsql.kernels.jit import Array, Int, kernel
from streamsql.kernels.ordered_nodes import PLAIN, TEXT, TEXT_DESCENDING
from streamsql.kernels.text_pool import TextPool, prefix_words

Int64Array = npt.NDArray[np.int64]

SIGN = -(2**63)
NAN = 0x7FF8000000000000
NS_PER_DAY = 86_400_000_000_000
DAYS_PER_MONTH = 30


@dataclass(frozen=True)
class OrderColumn:
    """One ORDER BY column: its Arrow type, direction, and whether NULLs come first.

    not_null: no NULL will come; saves a word.
    """

    type: pa.DataType
    descending: bool = False
    nulls_first: bool = False
    not_null: bool = False

    @property
    def is_text(self) -> bool:
        """Whether the values live in a text pool."""
        return self.type in (pa.string(), pa.binary())

    @property
    def value_words(self) -> int:
        """Words of the value."""
        two = self.is_text or pa.types.is_decimal128(self.type) or is_interval(self.type)
        return 2 if two else 1

    @property
    def words(self) -> int:
        """Words in the key."""
        return self.value_words + (0 if self.not_null else 1)

    @property
    def kinds(self) -> list[int]:
        """How each word compares."""
        kinds = [PLAIN] * self.words
        if self.is_text:
            kinds[-1] = TEXT_DESCENDING if self.descending else TEXT
        return kinds


def is_interval(type_: pa.DataType) -> bool:
    """Whether this is the Arrow type of INTERVAL."""
    return bool(type_ == pa.month_day_nano_interval())


def can_order(type_: pa.DataType) -> bool:
    """Whether values of this Arrow type can be encoded (nested ones can not)."""
    if pa.types.is_decimal128(type_) or type_ in (pa.string(), pa.binary()):
        return True
    return bool(pa.types.is_primitive(type_) and not pa.types.is_unsigned_integer(type_))


@kernel
def _encode_numbers(address: Int, width: Int, valid: Int, valid_offset: Int, out: Array) -> None:
    """Integers of `width` bytes (0 = bits, by bit address); 14, 18: floats of 4 and 8 bytes. NULL
    = 0."""
    for i in range(out.size):
        out[i] = 0
        if not bit(valid, valid_offset + i):
            continue
        if width < 10:
            out[i] = load_integer(address, width, i)
            continue
        value = load_f64(address + 8 * i) if width == 18 else load_f32(address + 4 * i)
        if value != value:
            out[i] = NAN
        elif value != 0.0:
            word = np.int64(_bits_of(value))
            out[i] = word if word >= 0 else word ^ 0x7FFFFFFFFFFFFFFF


@kernel
def encode_single(
    groups: Array, address: Int, width: Int, valid: Int, valid_offset: Int, out: Array
) -> None:
    """Keys int64[n, 2] of a group and one number that is never NULL, in ascending order; width as
    for `_encode_numbers`."""
    for i in range(groups.size):
        out[i, 0], out[i, 1] = groups[i], 0
        if not bit(valid, valid_offset + i):
            continue
        if width < 10:
            out[i, 1] = load_integer(address, width, i)
            continue
        value = load_f64(address + 8 * i) if width == 18 else load_f32(address + 4 * i)
        if value != value:
            out[i, 1] = NAN
        elif value != 0.0:
            word = np.int64(_bits_of(value))
            out[i, 1] = word if word >= 0 else word ^ 0x7FFFFFFFFFFFFFFF


def single_width(columns: Sequence[OrderColumn]) -> int:
    """The `width` for `encode_single` where keys are one ascending number that is never NULL, else
    -1."""
    if len(columns) != 1:
        return -1
    column = columns[0]
    if column.descending or not column.not_null or column.value_words != 1:
        return -1
    if column.type == pa.bool_():
        return -1
    width: int = column.type.bit_width // 8
    return width + 10 if pa.types.is_floating(column.type) else width


@kernel
def _decode_floats(words: Array, out: Array) -> None:
    """Inverse of `_encode_numbers` for floats; out: float64."""
    for i in range(words.size):
        word = words[i] if words[i] >= 0 else words[i] ^ 0x7FFFFFFFFFFFFFFF
        out[i] = _float_of(np.uint64(word))


def floats_of(words: Int64Array) -> npt.NDArray[np.float64]:
    """The floats of these words."""
    out = np.empty(words.size, np.float64)
    _decode_floats(words, out)
    return out


@kernel
def _encode_pairs(
    address: Int, interval: Int, valid: Int, valid_offset: Int, high: Array, low: Array
) -> None:
    """Decimals as (upper word, lower word in signed order); intervals as (days, ns of the day)."""
    for i in range(high.size):
        high[i], low[i] = 0, 0
        if not bit(valid, valid_offset + i):
            continue
        at = address + 16 * i
        if interval:
            ns = load_i64(at + 8)
            carry = ns // NS_PER_DAY
            high[i] = load_i32(at) * DAYS_PER_MONTH + load_i32(at + 4) + carry
            low[i] = ns - carry * NS_PER_DAY
        else:
            high[i], low[i] = load_i64(at + 8), load_i64(at) ^ SIGN


@kernel
def _decode_pairs(high: Array, low: Array, interval: Int, out: Int) -> None:
    """Inverse of `_encode_pairs`; an interval comes back as days and ns."""
    for i in range(high.size):
        at = out + 16 * i
        if interval:
            store_i32(at, 0)
            store_i32(at + 4, high[i])
            store_i64(at + 8, low[i])
        else:
            store_i64(at, low[i] ^ SIGN)
            store_i64(at + 8, high[i])


def encode(
    arrays: Sequence[pa.Array], columns: Sequence[OrderColumn], pool: TextPool, out: Int64Array
) -> None:
    """Write the columns' words into out int64[n, words], one row a key. Texts are entered into the
    pool."""
    at = 0
    for array, column in zip(arrays, columns, strict=True):
        if not column.not_null:
            if array.null_count:
                nulls = array.is_null().to_numpy(zero_copy_only=False)
                out[:, at] = np.where(nulls, -1 if column.nulls_first else 1, 0)
            else:
                out[:, at] = 0
            at += 1
        for word in _value_words(array, column, pool):
            out[:, at] = word
            at += 1


def _value_words(array: pa.Array, column: OrderColumn, pool: TextPool) -> list[Int64Array]:
    n = len(array)
    valid, offset = (0, 0)
    if array.null_count:
        valid, offset = array.buffers()[0].address, array.offset
    first = np.empty(n, np.int64)
    if column.is_text:
        _, offsets, data = array.buffers()
        start = 0 if offsets is None else offsets.address + 4 * array.offset
        if n:
            prefix_words(start, 0 if data is None else data.address, valid, offset, first)
        # the slot is turned round by its kind, not by its number
        return [~first if column.descending else first, pool.intern(array)]
    buffer = array.buffers()[1]
    address = 0 if buffer is None else buffer.address
    words = [first]
    if column.value_words == 2:
        words.append(np.empty(n, np.int64))
        address += 16 * array.offset
        _encode_pairs(address, int(is_interval(column.type)), valid, offset, *words)
    elif column.type == pa.bool_():
        _encode_numbers(8 * address + array.offset, 0, valid, offset, first)
    else:
        width = column.type.bit_width // 8
        code = width + 10 if pa.types.is_floating(column.type) else width
        _encode_numbers(address + width * array.offset, code, valid, offset, first)
    return [~word for word in words] if column.descending else words


def decode(
    keys: npt.NDArray[np.int64], columns: Sequence[OrderColumn], pool: TextPool
) -> list[pa.Array]:
    """The columns' values from their words int64[n, words]."""
    arrays, at = [], 0
    for column in columns:
        nulls = None
        if not column.not_null:
            nulls = keys[:, at] != 0
            at += 1
        words = [np.ascontiguousarray(keys[:, at + i]) for i in range(column.value_words)]
        at += column.value_words
        arrays.append(_decoded(words, column, pool, nulls))
    return arrays


def _decoded(
    words: list[Int64Array],
    column: OrderColumn,
    pool: TextPool,
    nulls: npt.NDArray[np.bool_] | None,
) -> pa.Array:
    type_, n = column.type, words[0].size
    if column.is_text:
        slots = words[1] if nulls is None else np.where(nulls, -1, words[1])
        return pool.texts(slots, type_)
    if column.descending:
        words = [~word for word in words]
    bitmap = None
    if nulls is not None and nulls.any():
        bitmap = pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    if column.value_words == 2:
        data = pa.allocate_buffer(16 * n)
        _decode_pairs(*words, int(is_interval(type_)), data.address)
        return pa.Array.from_buffers(type_, n, [bitmap, data])
    if pa.types.is_floating(type_):
        values = np.empty(n, np.float64)
        _decode_floats(words[0], values)
        return pa.array(values.astype(type_.to_pandas_dtype()), type_, mask=nulls)
    if type_ == pa.bool_():
        return pa.array(words[0] != 0, mask=nulls)
    numbers = words[0].astype(f"i{type_.bit_width // 8}")
    return pa.Array.from_buffers(type_, n, [bitmap, pa.py_buffer(numbers)])
