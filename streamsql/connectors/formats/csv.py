"""CSV: typed by Arrow's reader; a block it refuses is read as text and cast column by column."""

from __future__ import annotations

import csv
import io
from typing import Any

import numpy as np
import pyarrow as pa

from streamsql.connectors.base import Options, cut_payload
from streamsql.connectors.formats.base import (
    BadRecord,
    Caster,
    Int64Array,
    Parsed,
    TextFormat,
    cast_sql,
    combined,
    finish,
    match_names,
    syntax_error,
)
from streamsql.connectors.formats.text import (
    BOM,
    filled_records,
    invalid_utf8,
    line_ends,
    quoted_line_ends,
    record_text,
    without,
)
from streamsql.core.delta import make_batch
from streamsql.core.errors import InvalidParameterValue
from streamsql.core.schema import Schema
from streamsql.core.types import Kind

_BY_ARROW = {
    Kind.BOOLEAN, Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT, Kind.REAL, Kind.DOUBLE, Kind.TEXT,
    Kind.VARCHAR, Kind.DATE, Kind.TIMESTAMP,
}  # fmt: skip
_TRUE = ["true", "t", "True", "TRUE", "T", "yes", "y", "on", "1"]
_FALSE = ["false", "f", "False", "FALSE", "F", "no", "n", "off", "0"]
_ESCAPES = {"\\t": "\t", "tab": "\t"}


class CsvFormat(TextFormat):
    """ENCODE CSV. Options: header (default false: columns by position; true: by name), delimiter
    (default ','), quote ('"'), escape (default: a doubled quote), null (text of NULL, default the
    empty unquoted field)."""

    def __init__(self, schema: Schema, options: Options) -> None:
        self.schema = schema
        self.header = options.flag("header", "csv.header")
        if (without_header := options.text("without_header")) is not None:
            self.header = without_header.lower() != "true"
        self._delimiter = _one("delimiter", options.text("delimiter", "csv.field-delimiter"), ",")
        self._quote = _one("quote", options.text("quote", "csv.quote-character"), '"')
        escape = options.text("escape", "csv.escape-character")
        self._escape = None if escape is None else _one("escape", escape, "")
        if self._escape == self._quote:
            self._escape = None
        self._null = options.text("null", "csv.null-literal", default="") or ""
        self._names: list[str] | None = None
        self._caster: Caster | None = None

    def record_ends(self, data: bytes) -> Int64Array:
        """A line feed inside quotes belongs to the record."""
        return quoted_line_ends(data, ord(self._quote)) if self._quote else line_ends(data)

    def header_end(self, data: bytes, ends: Int64Array) -> int:
        """The first line, if there is a header; else only a byte order mark."""
        if self.header:
            return int(ends[0]) if len(ends) else -1
        return len(BOM) if data.startswith(BOM) else 0

    def read_header(self, data: bytes) -> None:
        """Names of the columns; a file that lacks some of ours gives NULLs there.

        Raises: InvalidParameterValue (22023) when not one of them is ours.
        """
        if not self.header:
            return
        text = data.decode("utf-8-sig", "replace")
        reader = csv.reader(io.StringIO(text), delimiter=self._delimiter, quotechar=self._quote)
        names = next(reader, [])
        if names and all(i < 0 for i in match_names(self.schema, names)) and len(self.schema):
            raise InvalidParameterValue(
                "the header of the CSV file names none of the columns",
                detail=f"It names: {', '.join(names[:20])}.",
                hint="Say header = false if the first line holds data.",
            )
        self._names = names

    # --- parsing ----------------------------------------------------------------------------------
    def parse(self, data: bytes, ends: Int64Array) -> Parsed:
        """Whole records to rows. Raises nothing for bad ones: they are listed."""
        broken = invalid_utf8(data, ends)
        records = without(filled_records(data, ends), broken)
        bad = [self._bad(data, ends, int(r), _ENCODING) for r in broken]
        if len(broken):
            pieces = [data[(int(ends[r - 1]) if r else 0) : int(ends[r])] for r in records.tolist()]
            clean = b"".join(pieces)
            lengths = np.array([len(p) for p in pieces], np.int64)
            inner = self._parse_clean(clean, np.cumsum(lengths), np.arange(len(records)))
            moved = [BadRecord(int(records[b.record]), b.payload, b.reason) for b in inner.bad]
            bad = sorted(bad + moved, key=lambda b: b.record)
            return Parsed(inner.batch, records[inner.records], bad)
        return self._parse_clean(data, ends, records)

    def _parse_clean(self, data: bytes, ends: Int64Array, records: Int64Array) -> Parsed:
        if not len(records):
            empty = [pa.nulls(0, c.type.arrow) for c in self.schema]
            return Parsed(make_batch(empty, self.schema.arrow, 0), records)
        names, positions = self._layout()
        types = {
            names[p]: c.type.arrow if c.type.kind in _BY_ARROW else pa.string()
            for p, c in zip(positions, self.schema, strict=True)
            if p >= 0
        }
        import duckdb

        try:
            table, short = self._read(data, names, types)
            batch = self._cast(table, names, positions)
            failed: dict[int, str] = {}
        except (pa.ArrowInvalid, duckdb.Error):
            table, short = self._read(data, names, dict.fromkeys(types, pa.string()))
            batch, failed = self._try_cast(table, names, positions)
        rows = records
        if short:
            wrong = records[np.array([n for n, _ in short], np.int64)]
            rows = without(records, wrong)
        if not short and not failed:
            return Parsed(batch, rows)
        bad = [self._bad(data, ends, int(records[n]), why) for n, why in short]
        bad += [self._bad(data, ends, int(rows[n]), why) for n, why in failed.items()]
        if failed:
            good = np.setdiff1d(np.arange(len(rows)), np.array(list(failed), np.int64))
            batch, rows = batch.take(pa.array(good)), rows[good]
        return Parsed(batch, rows, sorted(bad, key=lambda b: b.record))

    def _layout(self) -> tuple[list[str], list[int]]:
        """(names of the file's columns, position in the file of each of ours or -1)."""
        if self._names is None:
            count = len(self.schema)
            return [f"f{i}" for i in range(count)], list(range(count))
        return [f"f{i}" for i in range(len(self._names))], match_names(self.schema, self._names)

    def _read(
        self, data: bytes, names: list[str], types: dict[str, pa.DataType]
    ) -> tuple[pa.Table, list[tuple[int, str]]]:
        """(table of the wanted columns, [(row, why)] of rows with a wrong count of fields)."""
        from pyarrow import csv as arrow_csv

        short: list[tuple[int, str]] = []

        def skip(row: Any) -> str:
            what = "extra data after last expected column"
            if row.actual_columns < row.expected_columns:
                what = f"missing data: {row.actual_columns} of {row.expected_columns} columns"
            short.append((row.number - 1, what))
            return "skip"

        table = arrow_csv.read_csv(
            io.BytesIO(data),
            read_options=arrow_csv.ReadOptions(
                use_threads=False, block_size=len(data) + 1, column_names=names
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=self._delimiter,
                quote_char=self._quote or False,
                double_quote=self._escape is None,
                escape_char=self._escape or False,
                newlines_in_values=True,
                invalid_row_handler=skip,
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=types,
                include_columns=list(types),
                null_values=[self._null],
                true_values=_TRUE,
                false_values=_FALSE,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        return table, short

    def _cast(self, table: pa.Table, names: list[str], positions: list[int]) -> pa.RecordBatch:
        """Columns that Arrow did not type go through one DuckDB cast. Raises: duckdb.Error."""
        by_duck = [
            i for i, p in enumerate(positions)
            if p >= 0 and self.schema[i].type.kind not in _BY_ARROW
        ]  # fmt: skip
        done: dict[int, Any] = {}
        if by_duck and table.num_rows:
            exprs = [
                f"{cast_sql(names[positions[i]], self.schema[i].type, attempt=False)} AS c{i}"
                for i in by_duck
            ]
            result = self._duck().query(f"SELECT {', '.join(exprs)} FROM input", table)
            done = {i: result.column(k) for k, i in enumerate(by_duck)}
        arrays = []
        for i, position in enumerate(positions):
            column = self.schema[i]
            if position < 0:
                arrays.append(pa.nulls(table.num_rows, column.type.arrow))
            else:
                value = combined(done[i] if i in done else table.column(names[position]))
                arrays.append(finish(value, column.type))
        return make_batch(arrays, self.schema.arrow, table.num_rows)

    def _try_cast(
        self, table: pa.Table, names: list[str], positions: list[int]
    ) -> tuple[pa.RecordBatch, dict[int, str]]:
        """(all rows, with NULL where a cast failed; row -> why it is bad)."""
        failed: dict[int, str] = {}
        arrays = []
        for position, column in zip(positions, self.schema, strict=True):
            if position < 0:
                arrays.append(pa.nulls(table.num_rows, column.type.arrow))
                continue
            text = combined(table.column(names[position]))
            value, wrong = self._duck().try_cast(text, column.type)
            for row in np.flatnonzero(wrong).tolist():
                why = f'{syntax_error(column.type, text[row].as_py())} in column "{column.name}"'
                failed.setdefault(row, why)
            arrays.append(value)
        return make_batch(arrays, self.schema.arrow, table.num_rows), failed

    def _bad(self, data: bytes, ends: Int64Array, record: int, reason: str) -> BadRecord:
        return BadRecord(record, cut_payload(record_text(data, ends, record)), reason)

    def _duck(self) -> Caster:
        if self._caster is None:
            self._caster = Caster()
        return self._caster


_ENCODING = 'invalid byte sequence for encoding "UTF8"'


def _one(option: str, text: str | None, default: str) -> str:
    """An option that is one character (or, for quote, none)."""
    if text is None:
        return default
    text = _ESCAPES.get(text, text)
    if len(text.encode()) > 1 or (not text and option == "delimiter"):
        raise InvalidParameterValue(f"CSV {option} must be a single one-byte character")
    return text
