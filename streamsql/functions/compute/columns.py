"""Arrow columns as numpy views and back, without copies and without pandas.

`pa.array(ndarray)` imports pandas on first use (half a second); building from buffers does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Value: TypeAlias = "pa.Array | pa.Scalar"
BoolArray = npt.NDArray[np.bool_]

_DTYPES: dict[pa.DataType, Any] = {
    pa.int8(): np.int8,
    pa.int16(): np.int16,
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.float32(): np.float32,
    pa.float64(): np.float64,
    pa.date32(): np.int32,
    pa.time64("us"): np.int64,
    pa.timestamp("us"): np.int64,
    pa.timestamp("us", "UTC"): np.int64,
}
MONTH_DAY_NANO = np.dtype([("months", "<i4"), ("days", "<i4"), ("ns", "<i8")])


def dtype_of(t: pa.DataType) -> Any:
    """numpy dtype of a fixed-width Arrow type's data buffer (decimal128: two uint64 a value)."""
    found = _DTYPES.get(t)
    if found is None:
        if pa.types.is_timestamp(t):
            return np.int64
        if t == pa.month_day_nano_interval():
            return MONTH_DAY_NANO
        raise TypeError(f"no numpy view of {t}")
    return found


def values(array: pa.Array) -> npt.NDArray[Any]:
    """The data buffer of a fixed-width column [n]; slots under NULLs hold anything."""
    dtype = dtype_of(array.type)
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(len(array), dtype)
    return np.frombuffer(buffer, dtype, array.offset + len(array))[array.offset :]


def decimal_words(array: pa.Array) -> npt.NDArray[np.uint64]:
    """decimal128 data as uint64 [n, 2]: low word, high word (two's complement)."""
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros((len(array), 2), np.uint64)
    words = np.frombuffer(buffer, np.uint64, 2 * (array.offset + len(array))).reshape(-1, 2)
    return words[array.offset :]


def bools(array: pa.Array) -> BoolArray:
    """Bool column as bytes; NULL slots are False."""
    if array.null_count:
        array = array.fill_null(False)
    return bits(array)


def bits(array: pa.Array) -> BoolArray:
    """Bool column without NULLs as bytes."""
    if not len(array):
        return np.zeros(0, np.bool_)
    raw = np.frombuffer(array.buffers()[1], np.uint8)
    start, n = array.offset, len(array)
    unpacked = np.unpackbits(raw[start // 8 : (start + n + 7) // 8], bitorder="little")
    return unpacked[start % 8 : start % 8 + n].view(np.bool_)


def from_bools(mask: BoolArray, validity: pa.Buffer | None = None) -> pa.BooleanArray:
    """A bool column from bytes."""
    packed = np.packbits(mask, bitorder="little")
    return pa.BooleanArray.from_buffers(pa.bool_(), len(mask), [validity, pa.py_buffer(packed)])


def valid_mask(array: pa.Array) -> BoolArray | None:
    """True where there is a value; None = everywhere."""
    if not array.null_count:
        return None
    if array.type == pa.null():
        return np.zeros(len(array), np.bool_)
    return bits(array.is_valid())


def validity(*arguments: Value) -> pa.Buffer | None:
    """Validity bitmap (offset 0) of a strict function of these columns; None = all valid.

    Scalars must be valid here: a NULL constant makes the whole result NULL before a kernel runs.
    """
    found: pa.Array | None = None
    for a in arguments:
        if isinstance(a, pa.Array) and a.null_count:
            if found is None and a.offset == 0 and a.type != pa.null():
                found_buffer = a.buffers()[0]
                only = sum(isinstance(x, pa.Array) and x.null_count > 0 for x in arguments) == 1
                if only and found_buffer is not None:
                    return found_buffer
            mask = a.is_valid()
            found = mask if found is None else pc.and_(found, mask)
    return None if found is None else found.buffers()[1]


def validity_from(mask: BoolArray | None) -> pa.Buffer | None:
    """Validity bitmap from a byte mask (True = valid); None if all are valid."""
    if mask is None or mask.all():
        return None
    return pa.py_buffer(np.packbits(mask, bitorder="little"))


def column(data: npt.NDArray[Any], t: pa.DataType, valid: pa.Buffer | None = None) -> pa.Array:
    """A fixed-width column over a numpy array, without a copy. data: [n], or uint64 [n, 2]."""
    return pa.Array.from_buffers(t, len(data), [valid, pa.py_buffer(np.ascontiguousarray(data))])


def with_nulls_at(array: pa.Array, rows: BoolArray) -> pa.Array:
    """The column with NULL where `rows` is True as well."""
    return pc.if_else(from_bools(~rows), array, pa.scalar(None, array.type))


def text_buffers(array: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """(offsets int32 [n + 1], bytes) of a string or binary column; offsets count into the bytes."""
    _, offsets, data = array.buffers()
    if offsets is None or not len(array):
        return np.zeros(len(array) + 1, np.int32), np.zeros(0, np.uint8)
    view = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    return view, np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)


def text_column(
    offsets: npt.NDArray[np.int32],
    data: npt.NDArray[np.uint8],
    valid: pa.Buffer | None = None,
    t: pa.DataType | None = None,
) -> pa.Array:
    """A string (or `t`) column over offsets [n + 1] and bytes."""
    return pa.Array.from_buffers(
        t or pa.string(), len(offsets) - 1, [valid, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def broadcast(value: Value, num_rows: int) -> pa.Array:
    """The value as a column: a scalar is repeated."""
    if isinstance(value, pa.Array):
        return value
    return pa.repeat(value, num_rows)


def flat(value: Any) -> Any:
    """A ChunkedArray as one Array; anything else as it is."""
    if isinstance(value, pa.ChunkedArray):
        if value.num_chunks == 1:
            return value.chunk(0)
        return value.combine_chunks()
    return value


def per_distinct(array: pa.Array, fn: Callable[[Any], Any], t: pa.DataType) -> pa.Array:
    """Apply a Python function to each distinct value of a column and spread the results.

    For what has no vectorised form (nested text, rare spellings). NULL stays NULL; fn gets
    `as_py()` values and may return None.
    """
    if not len(array):
        return pa.array([], type=t)
    encoded = flat(array.dictionary_encode())
    results = [None if v is None else fn(v) for v in encoded.dictionary.to_pylist()]
    return pa.array(results, type=t).take(encoded.indices)
