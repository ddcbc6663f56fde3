"""COPY binary: PostgreSQL's PGCOPY tuples to columns."""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamsql.core.errors import (
    BadCopyFileFormat,
    CharacterNotInRepertoire,
    FeatureNotSupported,
    InvalidBinaryRepresentation,
    StreamSqlError,
)
from streamsql.core.schema import Schema
from streamsql.core.types import Kind, SqlType
from streamsql.engine.copy_in import binary_loops as loops
from streamsql.functions.textio import parse_text

SIGNATURE = b"PGCOPY\n\xff\r\n\0"
EPOCH_DAYS = 10_957  # 2000-01-01
EPOCH_US = EPOCH_DAYS * 86_400_000_000
BLOCK_ROWS = 65_536

Int64Array = npt.NDArray[np.int64]


class BinaryReader:
    """Takes bytes as they come; `rows()` gives whole tuples as batches. table: for messages."""

    def __init__(self, schema: Schema, table: str) -> None:
        self.schema = schema
        self.table = table
        self._row = 1  # of the next tuple
        self._buffer = b""
        self._header_read = False
        self.ended = False

    def feed(self, data: bytes) -> None:
        """More bytes."""
        self._buffer += data

    def rows(self) -> list[pa.RecordBatch]:
        """Batches of the tuples that are complete. Raises: BadCopyFileFormat (22P04)."""
        if not self._header_read and not self._read_header():
            return []
        batches: list[pa.RecordBatch] = []
        data = np.frombuffer(self._buffer, np.uint8)
        at = 0
        width = len(self.schema)
        while not self.ended:
            offsets = np.empty((BLOCK_ROWS, width), np.int64)
            lengths = np.empty((BLOCK_ROWS, width), np.int64)
            rows, at, state = loops.walk_rows(data, at, width, offsets, lengths)
            if rows:
                batches.append(self._batch(data, offsets[:rows], lengths[:rows]))
                self._row += int(rows)
            if state == loops.WRONG_WIDTH:
                found = int.from_bytes(self._buffer[at : at + 2], "big", signed=True)
                raise BadCopyFileFormat(
                    f"row field count is {found}, expected {width}", detail=self._place()
                )
            self.ended = state == loops.END
            if state == loops.TOO_SHORT:
                break
        self._buffer = self._buffer[at:]
        return batches

    def finish(self) -> None:
        """Raises: BadCopyFileFormat (22P04) if the last tuple is not whole."""
        if not self._header_read:
            raise _no_signature()
        if self._buffer and not self.ended:
            raise BadCopyFileFormat("unexpected EOF in COPY data", detail=self._place())

    def _read_header(self) -> bool:
        buffer = self._buffer
        if len(buffer) < 19:
            return False
        if not buffer.startswith(SIGNATURE):
            raise _no_signature()
        flags, extra = struct.unpack_from("!II", buffer, 11)
        if flags & 0xFFFF0000:
            raise BadCopyFileFormat("unrecognized critical flags in COPY file header")
        if len(buffer) < 19 + extra:
            return False
        self._buffer = buffer[19 + extra :]
        self._header_read = True
        return True

    def _batch(
        self, data: npt.NDArray[np.uint8], offsets: Int64Array, lengths: Int64Array
    ) -> pa.RecordBatch:
        columns = []
        for i, column in enumerate(self.schema):
            starts = np.ascontiguousarray(offsets[:, i])
            sizes = np.ascontiguousarray(lengths[:, i])
            try:
                columns.append(decode(data, starts, sizes, column.type))
            except StreamSqlError as error:
                row = _first_bad(data, starts, sizes, column.type)
                error.detail = f"{self._place(row)}, column {column.name}"
                raise
        return pa.RecordBatch.from_arrays(columns, schema=self.schema.arrow)

    def _place(self, row: int = 0) -> str:
        return f"COPY {self.table}, line {self._row + row}"


Bytes = npt.NDArray[np.uint8]


def _no_signature() -> BadCopyFileFormat:
    return BadCopyFileFormat(
        "COPY file signature not recognized",
        hint="Say FORMAT text or FORMAT csv for data that is not in PostgreSQL's binary format.",
    )


def _first_bad(data: Bytes, offsets: Int64Array, lengths: Int64Array, type_: SqlType) -> int:
    """Position of the first value that can't be decoded, by halving."""
    low, high = 0, offsets.size
    while high - low > 1:
        middle = (low + high) // 2
        try:
            decode(data, offsets[low:middle], lengths[low:middle], type_)
            low = middle
        except StreamSqlError:
            high = middle
    return low


def decode(data: Bytes, offsets: Int64Array, lengths: Int64Array, type_: SqlType) -> pa.Array:
    """One column. Raises: InvalidBinaryRepresentation (22P03), 22021, 0A000."""
    try:
        return _decoded(data, offsets, lengths, type_)
    except (struct.error, ValueError, OverflowError) as error:
        if type_.is_text and isinstance(error, pa.ArrowInvalid):
            raise CharacterNotInRepertoire('invalid byte sequence for encoding "UTF8"') from error
        raise _wrong(type_) from error


def _wrong(type_: SqlType) -> InvalidBinaryRepresentation:
    return InvalidBinaryRepresentation(f"incorrect binary data format for type {type_}")


def _decoded(data: Bytes, offsets: Int64Array, lengths: Int64Array, type_: SqlType) -> pa.Array:
    fixed = _FIXED.get(type_.kind)
    nulls = lengths < 0
    if fixed is not None:
        dtype, convert = fixed
        return convert(_fixed(data, offsets, lengths, dtype, type_), nulls, type_)
    if type_.kind in (Kind.TEXT, Kind.VARCHAR, Kind.JSON, Kind.JSONB):
        if type_.kind is Kind.JSONB:  # a version byte stands in front
            offsets, lengths = offsets + 1, np.where(nulls, lengths, lengths - 1)
        texts = _strings(data, offsets, lengths, nulls).cast(pa.string())
        plain = type_.kind is Kind.TEXT or (type_.kind is Kind.VARCHAR and type_.length is None)
        return texts if plain else parse_text(texts, type_)
    if type_.kind is Kind.BYTEA:
        return _strings(data, offsets, lengths, nulls)
    if type_.kind in _VALUES:
        read = _VALUES[type_.kind]
        values = [
            None if lengths[i] < 0 else read(data[offsets[i] : offsets[i] + lengths[i]].tobytes())
            for i in range(offsets.size)
        ]
        if type_.kind is Kind.NUMERIC:
            return parse_text(pa.array(values, pa.string()), type_)
        return pa.array(values, type_.arrow)
    if type_.kind is Kind.ARRAY:
        return _arrays(data, offsets, lengths, type_)
    raise FeatureNotSupported(
        f"binary format of type {type_} is not supported", hint="Use COPY in text format."
    )


def _fixed(
    data: Bytes, offsets: Int64Array, lengths: Int64Array, dtype: str, type_: SqlType
) -> np.ndarray:
    width = np.dtype(dtype).itemsize
    out = np.zeros((offsets.size, width), np.uint8)
    bad = loops.gather_fixed(data, offsets, lengths, width, out)
    if bad >= 0:
        raise _wrong(type_)
    return out.view(dtype).reshape(-1)


def _strings(data: Bytes, offsets: Int64Array, lengths: Int64Array, nulls: np.ndarray) -> pa.Array:
    total = int(np.maximum(lengths, 0).sum())
    out = np.empty(total, np.uint8)
    ends = np.empty(offsets.size, np.int64)
    loops.gather_bytes(data, offsets, lengths, ends, out)
    starts = np.concatenate([[0], ends]).astype(np.int32)
    bitmap = None
    if nulls.any():
        bitmap = pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    return pa.Array.from_buffers(
        pa.binary(), offsets.size, [bitmap, pa.py_buffer(starts), pa.py_buffer(out)]
    )


def _plain(values: np.ndarray, nulls: np.ndarray, type_: SqlType) -> pa.Array:
    return pa.array(values, type_.arrow, mask=nulls)


def _boolean(values: np.ndarray, nulls: np.ndarray, type_: SqlType) -> pa.Array:
    return pa.array(values != 0, mask=nulls)


def _date(values: np.ndarray, nulls: np.ndarray, type_: SqlType) -> pa.Array:
    return pa.array(values + np.int32(EPOCH_DAYS), pa.int32(), mask=nulls).cast(pa.date32())


def _time(values: np.ndarray, nulls: np.ndarray, type_: SqlType) -> pa.Array:
    return pa.array(values, pa.int64(), mask=nulls).cast(type_.arrow)


def _timestamp(values: np.ndarray, nulls: np.ndarray, type_: SqlType) -> pa.Array:
    return pa.array(values + EPOCH_US, pa.int64(), mask=nulls).cast(type_.arrow)


Convert = Callable[[np.ndarray, np.ndarray, SqlType], pa.Array]

_FIXED: dict[Kind, tuple[str, Convert]] = {
    Kind.BOOLEAN: ("u1", _boolean),
    Kind.SMALLINT: ("<i2", _plain),
    Kind.INTEGER: ("<i4", _plain),
    Kind.BIGINT: ("<i8", _plain),
    Kind.REAL: ("<f4", _plain),
    Kind.DOUBLE: ("<f8", _plain),
    Kind.DATE: ("<i4", _date),
    Kind.TIME: ("<i8", _time),
    Kind.TIMESTAMP: ("<i8", _timestamp),
    Kind.TIMESTAMPTZ: ("<i8", _timestamp),
}


def _uuid(data: bytes) -> str:
    import uuid

    return str(uuid.UUID(bytes=data))


def _interval(data: bytes) -> tuple[int, int, int]:
    us, days, months = struct.unpack("!qii", data)
    return months, days, us * 1000


def _numeric(data: bytes) -> str:
    """Base-10000 digits as decimal text. Raises: 22P03 for NaN and infinities."""
    digits, weight, sign, scale = struct.unpack_from("!hhHh", data)
    if sign not in (0, 0x4000):
        raise InvalidBinaryRepresentation(
            "NaN and infinity are not supported in type numeric",
            hint="Declare the column DOUBLE PRECISION.",
        )
    groups = struct.unpack_from(f"!{digits}h", data, 8)
    value = Decimal(0)
    for i, group in enumerate(groups):
        value += Decimal(group).scaleb(4 * (weight - i))
    if sign:
        value = -value
    return f"{value:.{scale}f}"


_VALUES: dict[Kind, Callable[[bytes], Any]] = {
    Kind.UUID: _uuid,
    Kind.INTERVAL: _interval,
    Kind.NUMERIC: _numeric,
}


def _arrays(data: Bytes, offsets: Int64Array, lengths: Int64Array, type_: SqlType) -> pa.Array:
    """Arrays of one dimension: their elements are decoded as one column."""
    assert type_.element is not None
    starts: list[int] = []
    sizes: list[int] = []
    counts: list[int | None] = []
    for i in range(offsets.size):
        if lengths[i] < 0:
            counts.append(None)
            continue
        at, end = int(offsets[i]), int(offsets[i] + lengths[i])
        dimensions = int.from_bytes(data[at : at + 4].tobytes(), "big")
        if dimensions > 1:
            raise FeatureNotSupported(
                "arrays of several dimensions are not supported in binary format",
                hint="Use COPY in text format.",
            )
        count = 0 if not dimensions else int.from_bytes(data[at + 12 : at + 16].tobytes(), "big")
        counts.append(count)
        at += 12 + 8 * dimensions
        for _ in range(count):
            if at + 4 > end:
                raise _wrong(type_)
            size = int.from_bytes(data[at : at + 4].tobytes(), "big", signed=True)
            starts.append(at + 4)
            sizes.append(size)
            at += 4 + max(size, 0)
    elements = decode(data, np.array(starts, np.int64), np.array(sizes, np.int64), type_.element)
    ends = np.cumsum([0] + [c or 0 for c in counts])
    shape = pa.array(
        [None if i < len(counts) and counts[i] is None else int(e) for i, e in enumerate(ends)],
        pa.int32(),
    )
    return pa.ListArray.from_arrays(shape, elements, type=type_.arrow)
