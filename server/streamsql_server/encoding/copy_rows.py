"""COPY … TO STDOUT: text, csv and binary; one CopyData message per row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.engine.api import CopyOut, ResultColumn
from streamsql_server.encoding.assembly import lines
from streamsql_server.encoding.pieces import from_strings, offsets_of
from streamsql_server.encoding.rows import (
    BINARY,
    COPY_DATA,
    TEXT,
    ColumnEncoder,
    RowEncoder,
    slices,
)
from streamsql_server.encoding.wire_type import WireContext
from streamsql_server.protocol.messages import copy_data

_APART = frozenset("\t,;|")  # no number, date or the like contains one
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
        self._delimiter_is_apart = copy.delimiter in _APART and copy.null in ("\\N", "")
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
        fields = [
            from_strings(self._field(encoder, column))
            for encoder, column in zip(self._columns, batch.columns, strict=True)
        ]
        copy = self.copy
        delimiter, null = ord(copy.delimiter), copy.null.encode()
        return lines(fields, batch.num_rows, COPY_DATA[0], delimiter, null).data

    def _field(self, encoder: ColumnEncoder, column: pa.Array) -> pa.Array:
        """Texts, escaped or quoted where they must be."""
        texts = encoder.text(column)
        if encoder.wire.plain and self._delimiter_is_apart:
            return texts
        return self._escaped(texts)

    def _escaped(self, texts: pa.Array) -> pa.Array:
        return self._quoted(texts) if self.copy.format == "csv" else self._backslashed(texts)

    def _backslashed(self, texts: pa.Array) -> pa.Array:
        delimiter = self.copy.delimiter
        if not _occurs(texts, "".join(char for char, _ in _TEXT_ESCAPES) + delimiter):
            return texts
        for char, escape in _TEXT_ESCAPES:
            texts = pc.replace_substring(texts, char, escape)
        if delimiter != "\t":
            texts = pc.replace_substring(texts, delimiter, "\\" + delimiter)
        return texts

    def _quoted(self, texts: pa.Array) -> pa.Array:
        copy = self.copy
        special = copy.delimiter + copy.quote + "\n\r"
        needs = pc.equal(texts, copy.null)
        if _occurs(texts, special):
            needs = pc.or_(needs, pc.match_substring_regex(texts, f"[{_class_escape(special)}]"))
        if len(self._columns) == 1:  # a lone \\. would end the data
            needs = pc.or_(needs, pc.equal(texts, "\\."))
        needs = pc.fill_null(needs, False)
        if not pc.any(needs).as_py():
            return texts
        escaped = pc.replace_substring(texts, copy.quote, copy.quote * 2)
        return pc.if_else(
            needs, pc.binary_join_element_wise(copy.quote, escaped, copy.quote, ""), texts
        )


def _occurs(texts: pa.Array, chars: str) -> bool:
    """Is one of these (ASCII) characters anywhere in the column? One look at each byte."""
    offsets = offsets_of(texts)
    if offsets[-1] == offsets[0]:
        return False
    wanted = np.zeros(256, bool)
    wanted[[ord(char) for char in chars]] = True
    data = np.frombuffer(texts.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    return bool(wanted[data].any())


def _class_escape(char: str) -> str:
    """A character inside [] of a regular expression."""
    return "".join(f"\\x{{{ord(c):x}}}" for c in char)
