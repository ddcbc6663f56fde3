"""Arrow batches to DataRow messages, or the equal tuples of COPY BINARY.

Each column is encoded as a whole; a compiled loop (`assembly.py`) then writes the rows. Its output
*is* the byte stream, handed on without a copy.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator, Sequence

import pyarrow as pa

from streamsql.core.errors import FeatureNotSupported, ProgramLimitExceeded
from streamsql.core.types import SqlType
from streamsql.engine.api import ResultColumn
from streamsql_server.encoding.assembly import data_rows
from streamsql_server.encoding.pieces import Encoded, as_bytes, from_strings
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
        out = data_rows(columns, n, self.tag[0], MAX_MESSAGE)
        if out is None:
            raise _too_long()
        yield out.data

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
