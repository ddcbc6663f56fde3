"""Rows to two independent 64-bit lanes: what every index is keyed by.

`hash_columns` follows SQL equality (NULL = NULL, -0.0 = 0.0, one NaN, '1 month' = '30 days');
`hash_rows` follows representation (those differ), which is what tells the rows of a Z-set apart:
an UPDATE from 0.0 to -0.0 is a change.

One column of at most 8 bytes is exact: its value is the second lane. Everything else is a keyed
128-bit hash, whose accidental collisions are out of reach of any table that fits in a machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamsql.kernels import hashing_loops as loops

UInt64Array = npt.NDArray[np.uint64]
BoolArray = npt.NDArray[np.bool_]
Lanes = tuple[UInt64Array, UInt64Array]

_key: tuple[Any, Any] = (np.uint64(0x1F83D9ABFB41BD6B), np.uint64(0x5BE0CD19137E2179))

_FLOATS = (pa.types.is_float32, pa.types.is_float64)
_BYTES32 = frozenset({pa.string(), pa.binary()})
_BYTES64 = frozenset({pa.large_string(), pa.large_binary()})


def set_key(key: bytes) -> None:
    """Make 16 secret bytes the key of this process; before the first hash, for good.

    With a key that nobody else knows, no input can be made that collides.
    """
    global _key  # noqa: PLW0603  (one key a process, by design)
    if len(key) != 16:
        raise ValueError("the hash key has 16 bytes")
    first, second = np.frombuffer(key, np.uint64)
    _key = (first, second)


def key_fingerprint() -> int:
    """A number that tells two keys apart without giving them away; kept beside saved lanes."""
    one = pa.array(["streamsql"])
    h0, _ = hash_arrays([one])
    return int(h0[0] >> np.uint64(1))


def hash_columns(batch: pa.RecordBatch, columns: Sequence[int]) -> Lanes:
    """Lanes (uint64[n], uint64[n]) of these columns, by SQL equality; no column = one constant."""
    return hash_arrays([batch.column(i) for i in columns], batch.num_rows)


def hash_rows(batch: pa.RecordBatch, columns: Sequence[int] | None = None) -> Lanes:
    """Lanes of whole rows (or of these columns), by representation."""
    arrays = batch.columns if columns is None else [batch.column(i) for i in columns]
    return hash_arrays(arrays, batch.num_rows, exact=True)


def hash_arrays(
    arrays: Sequence[pa.Array], num_rows: int | None = None, *, exact: bool = False
) -> Lanes:
    """Lanes of parallel arrays. exact: by representation instead of by SQL equality."""
    n = len(arrays[0]) if num_rows is None else num_rows
    r0, r1 = np.empty(n, np.uint64), np.empty(n, np.uint64)
    k0, k1 = _key
    if len(arrays) == 1:
        plan = _word_plan(arrays[0], exact)
        if plan is not None:
            address, width, mode = plan
            valid, offset = _validity(arrays[0])
            loops.exact_words(address, width, mode, valid, offset, k0, r0, r1)
            return r0, r1
    if not arrays:
        r0.fill(k0)
        r1.fill(k1)
    for i, array in enumerate(arrays):
        _fold(array, exact, i == 0, r0, r1)
    return r0, r1


def any_null(batch: pa.RecordBatch, columns: Sequence[int]) -> BoolArray:
    """bool[n]: a NULL in any of these columns."""
    out = np.zeros(batch.num_rows, np.bool_)
    for i in columns:
        column = batch.column(i)
        if pa.types.is_null(column.type):
            out[:] = True
            continue
        valid, offset = _validity(column)
        if valid:
            loops.mark_nulls(valid, offset, out)
    return out


def _validity(array: pa.Array) -> tuple[int, int]:
    """(address of the validity bitmap or 0, offset of the first row's bit)."""
    if array.null_count == 0:
        return 0, 0
    return array.buffers()[0].address, array.offset


def _word_plan(array: pa.Array, exact: bool) -> tuple[int, int, int] | None:
    """(address of the first value, bytes a value, mode) of a column of at most 8 bytes."""
    t = array.type
    if t in _BYTES32 or not pa.types.is_primitive(t):
        return None
    bits = t.bit_width
    if bits > 64 or pa.types.is_decimal(t):
        return None
    buffer = array.buffers()[1]
    address = 0 if buffer is None else buffer.address
    if bits == 1:
        return 8 * address + array.offset, 0, loops.INTEGER
    mode = loops.INTEGER
    if any(is_float(t) for is_float in _FLOATS):
        mode = loops.FLOAT_EXACT if exact else loops.FLOAT
    return address + array.offset * (bits >> 3), bits >> 3, mode


def _fold(array: pa.Array, exact: bool, first: bool, r0: UInt64Array, r1: UInt64Array) -> None:
    """Fold one column into the lanes, whatever its type."""
    k0, k1 = _key
    t = array.type
    if pa.types.is_null(t):
        array = pa.nulls(len(array), pa.int8())
        t = array.type
    valid, offset = _validity(array)
    rest = (valid, offset, first, k0, k1, r0, r1)
    if t in _BYTES32 or t in _BYTES64:
        _, offsets, data = array.buffers()
        width = 4 if t in _BYTES32 else 8
        if offsets is None or not len(array):
            return
        at = 0 if data is None else data.address
        loops.fold_bytes(offsets.address + width * array.offset, width, at, *rest)
    elif pa.types.is_decimal128(t) or t == pa.month_day_nano_interval():
        as_interval = t == pa.month_day_nano_interval() and not exact
        address = array.buffers()[1].address + 16 * array.offset
        loops.fold_pairs(address, as_interval, *rest)
    elif pa.types.is_struct(t):
        fields = [array.field(i) for i in range(t.num_fields)]
        loops.fold_lanes(*hash_arrays(fields, len(array), exact=exact), *rest)
    elif pa.types.is_list(t) or pa.types.is_map(t):
        _fold_list(array, exact, rest)
    else:
        plan = _word_plan(array, exact)
        if plan is None:
            raise TypeError(f"columns of Arrow type {t} can not be hashed")
        loops.fold_words(*plan, *rest)


def _fold_list(array: pa.Array, exact: bool, rest: tuple[Any, ...]) -> None:
    """Fold a list or map column: the lanes of its children first, then each list's run of them."""
    if not len(array):
        return
    offsets = array.buffers()[1]
    at = offsets.address + 4 * array.offset
    first, last = array.offsets[0].as_py(), array.offsets[len(array)].as_py()
    if pa.types.is_map(array.type):
        children = [array.keys, array.items]
    else:
        children = [array.values]
    sliced = [child.slice(first, last - first) for child in children]
    loops.fold_lists(at, *hash_arrays(sliced, last - first, exact=exact), *rest)
