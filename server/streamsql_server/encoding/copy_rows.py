"""COPY … TO STDOUT: text, csv and binary; one CopyData message per row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.engine.api import CopyOut, ResultColumn
from streamsql_server.encoding.pieces import constant_width, from_strings
from streamsql_server.encoding.rows import BINARY, COPY_DATA, TEXT, ColumnEncoder, RowEncoder
from streamsql_server.encoding.rows import joined as join_parts
from streamsql_server.encoding.rows import slices
from streamsql_server.encoding.wire_type import WireContext
from streamsql_server.protocol.messages import copy_data

SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"
_TEXT_ESCAPES = (
    ("\\", "\\\\"), ("\b", "\\b"), ("\f", "\\f"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"),
    ("\v", "\\v"),
)  # fmt: skip


class CopyEncoder:
    """Encodes one COPY; call `header`, `encode` for each batch, `finish`."""

    def __init__(
        self, copy: CopyOut, columns: Sequence[ResultColumn], context: WireContext
    ) -> None:
        self.copy = copy
        self.names = [column.name for column in columns]
        self.binary = copy.format == "binary"
        self._rows: RowEncoder | None = None
        self._columns: list[ColumnEncoder] = []
        self._header_sent = False
        if self.binary:
            self._rows = RowEncoder(columns, [BINARY] * len(columns), context, COPY_DATA)
        else:
            self._columns = [ColumnEncoder(column, TEXT, context) for column in columns]

    def header(self) -> bytes:
        """What goes before all rows (binary: nothing yet, see `encode`)."""
        if self.binary or not self.copy.header:
            return b""
        names = pa.array(self.names, pa.string())
        fields = [self._escaped(names.slice(i, 1))[0].as_py() for i in range(len(names))]
        return copy_data((self.copy.delimiter.join(fields) + "\n").encode())

    def encode(self, batch: pa.RecordBatch) -> Iterator[bytes | memoryview]:
        """The messages of a batch."""
        if self._rows is None:
            for part in slices(batch, len(self._columns)):
                if part.num_rows:
                    yield self._text_rows(part)
            return
        if not self._header_sent and batch.num_rows:
            # readers such as ADBC want the file header in the same message as the first tuple
            self._header_sent = True
            first = b"".join(bytes(chunk) for chunk in self._rows.encode(batch.slice(0, 1)))
            yield copy_data(SIGNATURE + first[5:])
            batch = batch.slice(1)
        yield from self._rows.encode(batch)

    def finish(self) -> bytes:
        """What goes behind all rows."""
        if not self.binary:
            return b""
        return copy_data(TRAILER if self._header_sent else SIGNATURE + TRAILER)

    # --- text and csv -----------------------------------------------------------------------------
    def _text_rows(self, batch: pa.RecordBatch) -> memoryview:
        n = batch.num_rows
        sizes = np.full(n, 4 + max(len(self._columns), 1), np.int64)
        fields = []
        for encoder, column in zip(self._columns, batch.columns, strict=True):
            field = from_strings(self._field(encoder.text(column)))
            sizes += field.lengths
            fields.append(field.data)
        head = np.empty(n, np.dtype([("tag", "u1"), ("size", ">i4")]))
        head["tag"], head["size"] = COPY_DATA[0], sizes
        delimiter = pa.scalar(self.copy.delimiter.encode(), pa.binary())
        parts: list[pa.Array | pa.Scalar] = [constant_width(head)]
        for i, data in enumerate(fields):
            parts += [delimiter, data] if i else [data]
        parts.append(pa.scalar(b"\n", pa.binary()))
        return join_parts(parts)

    def _field(self, texts: pa.Array) -> pa.Array:
        """Escaped or quoted texts, the NULL marker where NULL; no NULLs left."""
        return pc.fill_null(self._escaped(texts), self.copy.null)

    def _escaped(self, texts: pa.Array) -> pa.Array:
        return self._quoted(texts) if self.copy.format == "csv" else self._backslashed(texts)

    def _backslashed(self, texts: pa.Array) -> pa.Array:
        pattern = r"[\\\x08\x0c\n\r\t\x0b" + _class_escape(self.copy.delimiter) + "]"
        if not pc.any(pc.match_substring_regex(texts, pattern)).as_py():
            return texts
        for char, escape in _TEXT_ESCAPES:
            texts = pc.replace_substring(texts, char, escape)
        if self.copy.delimiter != "\t":
            delimiter = self.copy.delimiter
            texts = pc.replace_substring(texts, delimiter, "\\" + delimiter)
        return texts

    def _quoted(self, texts: pa.Array) -> pa.Array:
        copy = self.copy
        special = _class_escape(copy.delimiter) + _class_escape(copy.quote)
        needs = pc.match_substring_regex(texts, f"[{special}\n\r]")
        needs = pc.or_(needs, pc.equal(texts, copy.null))
        if len(self._columns) == 1:  # a lone \. would end the data
            needs = pc.or_(needs, pc.equal(texts, "\\."))
        needs = pc.fill_null(needs, False)
        if not pc.any(needs).as_py():
            return texts
        escaped = pc.replace_substring(texts, copy.quote, copy.quote * 2)
        return pc.if_else(
            needs, pc.binary_join_element_wise(copy.quote, escaped, copy.quote, ""), texts
        )


def _class_escape(char: str) -> str:
    """A character inside [] of a regular expression."""
    return "".join(f"\\x{{{ord(c):x}}}" for c in char)
