"""Arrow arrays as plain memory, and back: what operators hand to their loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamsql.core.delta import Int64Array, make_batch
from streamsql.core.schema import Schema
from streamsql.operators.loops import emit

BoolArray = npt.NDArray[np.bool_]
NO_WEIGHTS = np.empty(0, np.int64)
"""Stands for "all +1" where a loop takes weights."""


class Flat(NamedTuple):
    """A fixed-width column in memory. width: bytes a value, 0 = bits. valid: address of the
    validity bitmap or 0; the bit of row i is `valid_offset + i`. bit_offset: first bit of a bit
    column. The array must be kept alive by the caller."""

    address: int
    width: int
    valid: int
    valid_offset: int


_WIDTHS: dict[int, int] = {
    t.id: 0 if t == pa.bool_() else t.bit_width >> 3
    for t in (
        pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(),
        pa.uint32(), pa.uint64(), pa.float32(), pa.float64(), pa.date32(), pa.date64(),
        pa.time32("ms"), pa.time64("us"), pa.timestamp("us"), pa.duration("us"),
        pa.decimal128(1, 0),
    )
}  # fmt: skip
"""Arrow type id -> bytes a value, 0 = bits."""


def flat(array: pa.Array) -> Flat:
    """The memory of a column of at most 16 bytes a value."""
    width = _WIDTHS[array.type.id]
    if not width and array.offset & 7:
        array = pa.concat_arrays([array, array.slice(0, 0)])
    buffers, offset = array.buffers(), array.offset
    buffer = buffers[1]
    address = 0 if buffer is None else buffer.address
    address += offset * width if width else offset >> 3
    if array.null_count == 0:
        return Flat(address, width, 0, 0)
    return Flat(address, width, buffers[0].address, offset)


def int64_values(array: pa.Array) -> Int64Array:
    """Integers, dates, times and timestamps as int64 [n]; the values under NULLs mean nothing."""
    t = array.type
    if pa.types.is_boolean(t):
        return np.asarray(array.fill_null(False), dtype=np.int64)
    width = t.bit_width >> 3
    dtype = {8: np.int64, 4: np.int32, 2: np.int16, 1: np.int8}[width]
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(len(array), np.int64)
    raw = np.frombuffer(buffer, dtype, len(array), array.offset * width)
    return raw.astype(np.int64, copy=False)


def valid_mask(array: pa.Array) -> BoolArray | None:
    """bool [n], True where not NULL; None = no NULLs."""
    if array.null_count == 0:
        return None
    return np.asarray(array.is_valid())


def bitmap(valid: BoolArray | None) -> pa.Buffer | None:
    """An Arrow validity bitmap of a mask."""
    if valid is None or bool(valid.all()):
        return None
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


_STORAGE: dict[int, Any] = {
    t.id: {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}[t.bit_width]
    for t in (
        pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.date32(), pa.date64(), pa.time32("ms"),
        pa.time64("us"), pa.timestamp("us"), pa.duration("us"),
    )
} | {pa.float32().id: np.float32, pa.float64().id: np.float64}  # fmt: skip


def to_arrow(
    values: npt.NDArray[Any], type_: pa.DataType, valid: BoolArray | None = None
) -> pa.Array:
    """numpy values in the exact storage of `type_` ([n], or int64 [n, 2] for 16-byte types)."""
    storage = _STORAGE.get(type_.id)
    if storage is not None:
        data = pa.py_buffer(np.ascontiguousarray(values, storage))
    elif pa.types.is_boolean(type_):
        data = pa.py_buffer(np.packbits(values.astype(np.bool_), bitorder="little"))
    else:
        data = pa.py_buffer(np.ascontiguousarray(values, np.int64))
    return pa.Array.from_buffers(type_, len(values), [bitmap(valid), data])


def lane_column(
    cells: npt.NDArray[np.int64], lane: int, count: int, type_: pa.DataType
) -> pa.Array:
    """One lane of gathered cells as a column of an integer or time type; NULL where the lane
    `count` is not above 0 (-1 = nowhere)."""
    n, width = len(cells), _WIDTHS[type_.id]
    buffer = pa.allocate_buffer(n * width + n // 8 + 1)
    bits = buffer.address + n * width
    nulls = emit.lane(cells, lane, count, width, buffer.address, bits)
    data = buffer.slice(0, n * width)  # readers of whole buffers want whole values
    if not nulls:
        return pa.Array.from_buffers(type_, n, [None, data], 0)
    return pa.Array.from_buffers(type_, n, [buffer.slice(n * width), data], nulls)


def select(batch: pa.RecordBatch, columns: Sequence[int], schema: Schema) -> pa.RecordBatch:
    """The columns at these positions, renamed to c0, c1, … of `schema`."""
    return make_batch([batch.column(i) for i in columns], schema.arrow, batch.num_rows)


def take_rows(batch: pa.RecordBatch, rows: Int64Array) -> pa.RecordBatch:
    """`batch.take` that also keeps the row count of a batch without columns."""
    if batch.num_columns == 0:
        return make_batch([], batch.schema, len(rows))
    return batch.take(pa.array(rows))


def concat_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches of one schema, one after the other, as one contiguous batch."""
    filled = [b for b in batches if b.num_rows] or list(batches[:1])
    if len(filled) == 1:
        return filled[0]
    if filled[0].num_columns == 0:
        return make_batch([], filled[0].schema, sum(b.num_rows for b in filled))
    return pa.concat_batches(filled)


def sort_order(columns: Sequence[pa.Array]) -> Int64Array:
    """Row numbers in the order of these columns, NULLs last; columns without an order (nested
    ones, intervals) are passed over."""
    import pyarrow.compute as pc

    usable = [
        c
        for c in columns
        if not pa.types.is_nested(c.type) and c.type != pa.month_day_nano_interval()
    ]
    if not usable:
        return np.arange(len(columns[0]) if columns else 0)
    names = [f"k{i}" for i in range(len(usable))]
    keys = [(name, "ascending") for name in names]
    order = pc.sort_indices(pa.table(usable, names=names), sort_keys=keys)
    return np.asarray(order).astype(np.int64)
