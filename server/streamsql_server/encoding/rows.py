"""Arrow batches to DataRow messages, or the equal tuples of COPY BINARY.

The fixed-width pieces of a row (tag, length, column count, field lengths, fixed-width values) are
numpy structured arrays; neighbours fuse into one. Arrow joins these and the variable columns row
by row in C++: the data buffer of the result *is* the byte stream, handed on without a copy.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from streamsql.core.errors import FeatureNotSupported, ProgramLimitExceeded
from streamsql.core.types import SqlType
from streamsql.engine.api import ResultColumn
from streamsql_server.encoding.pieces import (
    AnyArray,
    Encoded,
    Fixed,
    Pieces,
    as_bytes,
    constant_width,
    from_strings,
    offsets_of,
)
from streamsql_server.encoding.registry import wire_type, wire_type_of
from streamsql_server.encoding.wire_type import WireContext, WireType

FEW_ROWS = 50  # below this, rows are put together in Python: less fixed cost
CHUNK_BYTES = 1 << 19
MIN_CHUNK_ROWS, MAX_CHUNK_ROWS = 256, 16_384
MAX_MESSAGE = (1 << 30) - 1  # as PostgreSQL
TEXT, BINARY = 0, 1
DATA_ROW, COPY_DATA = b"D", b"d"


def column_type(column: ResultColumn) -> WireType | None:
    """The wire type of a result column; None for a catalog type that we do not know."""
    if column.oid is not None:
        return wire_type(column.oid)
    return wire_type_of(column.type)


class ColumnEncoder:
    """Encodes one result column in one format.

    Raises: FeatureNotSupported (0A000) when the type has no binary form: text is never sent in a
    binary column.
    """

    def __init__(self, column: ResultColumn, format_: int, context: WireContext) -> None:
        found = column_type(column)
        if format_ == BINARY and (found is None or found.binary is None):
            name = found.name if found else f"with OID {column.oid}"
            raise FeatureNotSupported(
                f"type {name} has no binary format",
                hint="Ask for the text format, or cast the column to text.",
            )
        self.wire = found or wire_type_of(column.type)
        self.type: SqlType = column.type
        self.format = format_
        self.context = context
        self._native = column.type.arrow

    def _native_column(self, column: pa.Array) -> pa.Array:
        return column if column.type == self._native else column.cast(self._native)

    def text(self, column: pa.Array) -> pa.Array:
        """String array [n]."""
        return self.wire.text(self._native_column(column), self.type, self.context)

    def encode(self, column: pa.Array) -> Encoded:
        """Values in this column's format."""
        if self.format == BINARY:
            assert self.wire.binary is not None
            return self.wire.binary(self._native_column(column), self.type)
        return from_strings(self.text(column))

    def values(self, column: pa.Array) -> list[bytes | None]:
        """The same one by one, for few rows."""
        single = self.wire.text_value
        if self.format == TEXT and single is not None:
            with contextlib.suppress(ValueError, OverflowError):  # a date Python does not have
                return [
                    None if value is None else single(value).encode()
                    for value in column.to_pylist()
                ]
        return as_bytes(self.encode(column))


class RowEncoder:
    """Encodes batches of one result.

    formats: one code per column. tag: DATA_ROW or COPY_DATA (COPY BINARY tuples have the same
    bytes after the tag).
    """

    def __init__(
        self,
        columns: Sequence[ResultColumn],
        formats: Sequence[int],
        context: WireContext,
        tag: bytes = DATA_ROW,
    ) -> None:
        self.columns = [
            ColumnEncoder(column, format_, context)
            for column, format_ in zip(columns, formats, strict=True)
        ]
        self.tag = tag

    def encode(self, batch: pa.RecordBatch) -> Iterator[bytes | memoryview]:
        """The messages of all rows in order, in chunks of about half a megabyte."""
        for part in slices(batch, len(self.columns)):
            yield from self._encode_slice(part)

    def _encode_slice(self, batch: pa.RecordBatch) -> Iterator[bytes | memoryview]:
        n = batch.num_rows
        if n == 0:
            return
        if n < FEW_ROWS:
            yield self._few_rows(batch)
            return
        columns = [
            encoder.encode(column)
            for encoder, column in zip(self.columns, batch.columns, strict=True)
        ]
        sizes = row_sizes(columns, n)
        if int(sizes.sum()) + n > MAX_MESSAGE:  # offsets of the join are 32 bit
            half = n // 2
            yield from self._encode_slice(batch.slice(0, half))
            yield from self._encode_slice(batch.slice(half))
            return
        yield assemble(columns, sizes, self.tag)

    def _few_rows(self, batch: pa.RecordBatch) -> bytes:
        count = len(self.columns)
        columns = [
            encoder.values(column)
            for encoder, column in zip(self.columns, batch.columns, strict=True)
        ]
        head, tag, pack = struct.pack("!h", count), self.tag, struct.Struct("!i").pack
        null = pack(-1)
        out: list[bytes] = []
        for row in zip(*columns, strict=True) if columns else [()] * batch.num_rows:
            body = head + b"".join(
                [null if value is None else pack(len(value)) + value for value in row]
            )
            if len(body) + 4 > MAX_MESSAGE:
                raise _too_long()
            out.append(tag + pack(len(body) + 4) + body)
        return b"".join(out)


def _too_long() -> ProgramLimitExceeded:
    return ProgramLimitExceeded("a row is longer than one message may be (1 GB)")


def slices(batch: pa.RecordBatch, column_count: int) -> Iterator[pa.RecordBatch]:
    """Cuts a batch so that a chunk of messages is about CHUNK_BYTES long."""
    n = batch.num_rows
    if n <= MIN_CHUNK_ROWS:
        yield batch
        return
    row_bytes = batch.nbytes // n + 7 + 6 * column_count
    rows = max(MIN_CHUNK_ROWS, min(MAX_CHUNK_ROWS, CHUNK_BYTES // row_bytes))
    for start in range(0, n, rows):
        yield batch.slice(start, rows)


def row_sizes(columns: Sequence[Encoded], n: int) -> AnyArray:
    """int64 [n]: the length field of each row's message."""
    sizes = np.full(n, 6 + 4 * len(columns), np.int64)
    for column in columns:
        if isinstance(column, Fixed):
            sizes += column.values.dtype.itemsize
        else:
            sizes += np.maximum(column.lengths, 0)
    return sizes


def assemble(columns: Sequence[Encoded], sizes: AnyArray, tag: bytes) -> memoryview:
    """The messages of all rows, one behind the other.

    Raises: ProgramLimitExceeded (54000) for a row of 1 GB and more.
    """
    n = len(sizes)
    if int(sizes.max()) > MAX_MESSAGE:
        raise _too_long()
    fields: list[tuple[str, np.dtype[np.generic]]] = []
    values: list[AnyArray | int] = []
    parts: list[pa.Array] = []

    def add(dtype: str | np.dtype[np.generic], value: AnyArray | int) -> None:
        fields.append((f"f{len(fields)}", np.dtype(dtype)))
        values.append(value)

    def close() -> None:
        if fields:
            fused = np.empty(n, np.dtype(fields))
            for (name, _), value in zip(fields, values, strict=True):
                fused[name] = value
            parts.append(constant_width(fused))
            fields.clear()
            values.clear()

    add("u1", tag[0])
    add(">i4", sizes)
    add(">i2", len(columns))
    for column in columns:
        if isinstance(column, Pieces):
            add(">i4", column.lengths)
            close()
            parts.append(column.data)
        else:
            add(">i4", column.values.dtype.itemsize)
            add(column.values.dtype, column.values)
    close()
    return joined(parts)


def joined(parts: Sequence[pa.Array | pa.Scalar]) -> memoryview:
    """Row-wise concatenation of the parts: the bytes of all rows."""
    if len(parts) == 1:
        out = parts[0]
    else:
        import pyarrow.compute as pc

        out = pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.binary()))
    offsets = offsets_of(out)
    return memoryview(out.buffers()[2])[offsets[0] : offsets[-1]]
