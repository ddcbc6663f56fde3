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

# Arrow type id -> (bytes a value or 0 = bits, is a float): columns of at most 8 bytes.
_WORDS: dict[int, tuple[int, bool]] = {
    t.id: (0 if t == pa.bool_() else t.bit_width // 8, t in (pa.float32(), pa.float64()))
    for t in (
        pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(),
        pa.uint32(), pa.uint64(), pa.float32(), pa.float64(), pa.date32(), pa.date64(),
        pa.time32("ms"), pa.time64("us"), pa.timestamp("us"), pa.duration("us"),
    )
}  # fmt: skip
# -> width of the offsets
_BYTES: dict[int, int] = {
    pa.string().id: 4, pa.binary().id: 4, pa.large_string().id: 8, pa.large_binary().id: 8,
}  # fmt: skip
_DECIMAL = pa.decimal128(1, 0).id
_INTERVAL = pa.month_day_nano_interval().id
_LIST = pa.list_(pa.int8()).id
_MAP = pa.map_(pa.int8(), pa.int8()).id
_STRUCT = pa.struct([]).id
_NULL = pa.null().id


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
        if column.type.id == _NULL:
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
    found = _WORDS.get(array.type.id)
    if found is None:
        return None
    width, is_float = found
    buffer = array.buffers()[1]
    address = 0 if buffer is None else buffer.address
    if width == 0:
        return 8 * address + array.offset, 0, loops.INTEGER
    mode = loops.INTEGER
    if is_float:
        mode = loops.FLOAT_EXACT if exact else loops.FLOAT
    return address + array.offset * width, width, mode


def _fold(array: pa.Array, exact: bool, first: bool, r0: UInt64Array, r1: UInt64Array) -> None:
    """Fold one column into the lanes, whatever its type."""
    kind = array.type.id
    if kind == _NULL:
        array = pa.nulls(len(array), pa.int8())
    valid, offset = _validity(array)
    rest = (valid, offset, first, *_key, r0, r1)
    plan = _word_plan(array, exact)
    if plan is not None:
        loops.fold_words(*plan, *rest)
    elif kind in _BYTES:
        _, offsets, data = array.buffers()
        if offsets is None or not len(array):
            return
        at, width = 0 if data is None else data.address, _BYTES[kind]
        loops.fold_bytes(offsets.address + width * array.offset, width, at, *rest)
    elif kind in (_DECIMAL, _INTERVAL):
        address = array.buffers()[1].address + 16 * array.offset
        loops.fold_pairs(address, kind == _INTERVAL and not exact, *rest)
    elif kind == _STRUCT:
        fields = [array.field(i) for i in range(array.type.num_fields)]
        loops.fold_lanes(*hash_arrays(fields, len(array), exact=exact), *rest)
    elif kind in (_LIST, _MAP):
        _fold_list(array, exact, rest)
    else:
        raise TypeError(f"columns of Arrow type {array.type} can not be hashed")


def _fold_list(array: pa.Array, exact: bool, rest: tuple[Any, ...]) -> None:
    """Fold a list or map column: the lanes of its children first, then each list's run of them."""
    if not len(array):
        return
    offsets = array.buffers()[1]
    at = offsets.address + 4 * array.offset
    first, last = array.offsets[0].as_py(), array.offsets[len(array)].as_py()
    if array.type.id == _MAP:
        children = [array.keys, array.items]
    else:
        children = [array.values]
    sliced = [child.slice(first, last - first) for child in children]
    loops.fold_lists(at, *hash_arrays(sliced, last - first, exact=exact), *rest)
