"""Parquet: columns by name, cast to the declared types; a position is a row number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from streamsql.connectors.base import Options
from streamsql.connectors.formats.base import (
    BadRecord,
    Caster,
    Int64Array,
    Parsed,
    combined,
    finish,
    match_names,
    syntax_error,
)
from streamsql.core.delta import make_batch
from streamsql.core.errors import InvalidParameterValue
from streamsql.core.schema import Schema
from streamsql.core.types import Kind, SqlType


class ParquetFormat:
    """ENCODE PARQUET. Columns of the file that the source does not declare are not read."""

    def __init__(self, schema: Schema, options: Options) -> None:
        self.schema = schema
        self._caster: Caster | None = None

    def open(self, path: str, start_row: int) -> ParquetRows:
        """Rows of a file from `start_row` on. Raises: pa.ArrowInvalid: it is no Parquet file."""
        return ParquetRows(self, path, start_row)

    def convert(self, table: pa.Table, positions: list[int], first_record: int) -> Parsed:
        """Rows of the file to rows of the source; values that do not fit make their row bad."""
        arrays, wrong = [], np.zeros(table.num_rows, np.bool_)
        reasons: dict[int, str] = {}
        for position, column in zip(positions, self.schema, strict=True):
            if position < 0:
                arrays.append(pa.nulls(table.num_rows, column.type.arrow))
                continue
            value = combined(table.column(position))
            try:
                arrays.append(_cast(value, column.type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                text = value.cast(pa.string())
                done, failed = self._duck().try_cast(text, column.type)
                arrays.append(done)
                for row in np.flatnonzero(failed).tolist():
                    why = (
                        f'{syntax_error(column.type, text[row].as_py())} in column "{column.name}"'
                    )
                    reasons.setdefault(row, why)
                wrong |= failed
        batch = make_batch(arrays, self.schema.arrow, table.num_rows)
        if not reasons:
            return Parsed(batch, np.arange(table.num_rows, dtype=np.int64))
        good = np.flatnonzero(~wrong)
        bad = [
            BadRecord(row, str(table.slice(row, 1).to_pylist()[0]), reasons[row])
            for row in sorted(reasons)
        ]
        return Parsed(batch.take(pa.array(good)), good, bad)

    def _duck(self) -> Caster:
        if self._caster is None:
            self._caster = Caster()
        return self._caster


class ParquetRows:
    """An open Parquet file, read forward in batches."""

    def __init__(self, format_: ParquetFormat, path: str, start_row: int) -> None:
        from pyarrow import parquet

        self._format = format_
        self._file = parquet.ParquetFile(path)
        self.total_rows = int(self._file.metadata.num_rows)
        names = self._file.schema_arrow.names
        wanted = match_names(format_.schema, names)
        if names and len(format_.schema) and all(i < 0 for i in wanted):
            raise InvalidParameterValue(
                f'Parquet file "{path}" has none of the columns',
                detail=f"It has: {', '.join(names[:20])}.",
                hint="Columns are found by name.",
            )
        used = sorted({i for i in wanted if i >= 0})
        self._columns = [names[i] for i in used]
        self._positions = [used.index(i) if i >= 0 else -1 for i in wanted]
        self.next_row = start_row

    def read(self, max_rows: int) -> tuple[Parsed, Int64Array]:
        """(rows, int64 [records]: row number behind each record); no records at the end."""
        table = self._table(max_rows)
        parsed = self._format.convert(table, self._positions, self.next_row)
        ends = np.arange(1, table.num_rows + 1, dtype=np.int64) + self.next_row
        self.next_row += table.num_rows
        return parsed, ends

    def _table(self, max_rows: int) -> pa.Table:
        """At most `max_rows` rows of the row group that `next_row` is in."""
        metadata = self._file.metadata
        base = 0
        for group in range(metadata.num_row_groups):
            rows = metadata.row_group(group).num_rows
            if self.next_row < base + rows:
                table = self._row_group(group)
                return table.slice(self.next_row - base, max_rows)
            base += rows
        return self._file.schema_arrow.empty_table().select(self._columns)

    _cached: tuple[int, Any] = (-1, None)

    def _row_group(self, group: int) -> pa.Table:
        """Row groups are read whole and kept until the next one is needed."""
        if self._cached[0] != group:
            table = self._file.read_row_group(group, columns=self._columns, use_threads=False)
            self._cached = (group, table.select(self._columns))
        return self._cached[1]

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _cast(value: pa.Array, type_: SqlType) -> pa.Array:
    """A column as the declared type. Raises: pa.ArrowInvalid, pa.ArrowNotImplementedError."""
    if pa.types.is_dictionary(value.type):
        value = value.cast(value.type.value_type)
    if pa.types.is_timestamp(value.type) and type_.kind is Kind.BIGINT:
        return value.cast(pa.timestamp("ms", value.type.tz), safe=False).cast(pa.int64())
    if pa.types.is_integer(value.type) and type_.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        return value.cast(pa.int64()).cast(pa.timestamp("ms")).cast(type_.arrow)
    if pa.types.is_timestamp(value.type) and value.type.unit == "ns":
        return value.cast(pa.timestamp("us", value.type.tz), safe=False).cast(type_.arrow)
    if type_.kind is Kind.JSONB:
        return finish(value.cast(pa.string()), type_)
    return value if value.type == type_.arrow else value.cast(type_.arrow)
