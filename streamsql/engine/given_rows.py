"""Rows that a program hands over: data frames, Arrow, dicts; to columns of a relation's types."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from streamsql.core.errors import DatatypeMismatch, NumericValueOutOfRange, StreamSqlError
from streamsql.core.schema import Schema
from streamsql.core.types import Kind, SqlType
from streamsql.functions.textio import parse_text

_JSON = (Kind.JSON, Kind.JSONB)


def as_arrow(data: Any, schema: Schema) -> pa.Table:
    """Rows from outside as an Arrow table, of whatever types they come in.

    schema: the relation's columns; a Python value for a JSON column that is no text becomes JSON.
    Raises: DatatypeMismatch (42804).
    """
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, dict) and all(hasattr(v, "__iter__") for v in data.values()):
        return _table(data, schema)
    if isinstance(data, list) and all(isinstance(row, dict) for row in data):
        names = list(dict.fromkeys(k for row in data for k in row))
        return _table({n: [row.get(n) for row in data] for n in names}, schema)
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data).read_all()
    if hasattr(data, "__dataframe__"):
        return pa.interchange.from_dataframe(data)
    what = type(data).__name__
    if isinstance(data, list):
        what += " of " + next(type(row).__name__ for row in data if not isinstance(row, dict))
    raise DatatypeMismatch(
        f"cannot insert data of Python type {what}",
        hint="Give an Arrow table, a pandas or polars dataframe, or a list of dicts.",
    )


def _table(columns: dict[str, Any], schema: Schema) -> pa.Table:
    """Columns of Python values or arrays."""
    made = {name: _column(name, values, schema) for name, values in columns.items()}
    lengths = {name: len(column) for name, column in made.items()}
    if len(set(lengths.values())) > 1:
        raise DatatypeMismatch(
            "columns are of different lengths",
            detail=", ".join(f"{name}: {length}" for name, length in lengths.items()),
        )
    return pa.table(made)


def _column(name: str, values: Any, schema: Schema) -> Any:
    at = schema.index(name)
    if at >= 0 and schema[at].type.kind in _JSON and isinstance(values, list | tuple):
        return pa.array([_json(v) for v in values], pa.string())
    try:
        return values if isinstance(values, pa.ChunkedArray) else pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        known = f' of type "{schema[at].type}"' if at >= 0 else ""
        raise DatatypeMismatch(
            f'values for column "{name}"{known} are of different types',
            detail=_first_line(error),
        ) from None


def _json(value: Any) -> str | None:
    """None is NULL, a str is JSON already, everything else is written as JSON."""
    return value if value is None or isinstance(value, str) else json.dumps(value, default=str)


def converted(
    column: pa.ChunkedArray, name: str, type_: SqlType, timezone: str = "UTC"
) -> pa.ChunkedArray:
    """A column as its SQL type.

    Raises: DatatypeMismatch (42804), NumericValueOutOfRange (22003), errors of the texts in it.
    """
    if column.type == type_.arrow and not _checked(type_):
        return column
    try:
        if type_.kind in _JSON and pa.types.is_nested(column.type):
            column = pa.chunked_array([[_json(v) for v in column.to_pylist()]], pa.string())
        if _checked(type_) or _is_text(column.type) or _is_number_for(column.type, type_):
            text = column.cast(pa.string()).combine_chunks()
            whole = text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text
            return pa.chunked_array([_parsed(whole, name, type_, timezone)])
        return column.cast(type_.arrow)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        if type_.is_integer and pa.types.is_integer(column.type):
            raise NumericValueOutOfRange(
                f"{type_} out of range", detail=f"Column {name}: {_first_line(error)}."
            ) from None
        raise DatatypeMismatch(
            f'column "{name}" is of type {type_} but the data is of Arrow type {column.type}',
            detail=_first_line(error),
            hint="Cast the column before, or give texts as they would stand in SQL.",
        ) from error


def _parsed(texts: pa.Array, name: str, type_: SqlType, timezone: str) -> pa.Array:
    try:
        return parse_text(texts, type_, timezone)
    except StreamSqlError as error:
        row = first_bad(texts, type_, timezone)
        place = f'row {row + 1}, column {name}: "{texts[row].as_py()}"'
        raise type(error)(error.message, detail=place, hint=error.hint) from None


def first_bad(texts: pa.Array, type_: SqlType, timezone: str) -> int:
    """Position of the first text that does not parse, by halving."""
    low, high = 0, len(texts)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            parse_text(texts.slice(low, middle - low), type_, timezone)
            low = middle
        except StreamSqlError:
            high = middle
    return low


def _first_line(error: Exception) -> str:
    return str(error).split("\n", maxsplit=1)[0].rstrip(".")


def _checked(type_: SqlType) -> bool:
    """Types whose values are texts of a certain form."""
    if type_.kind is Kind.VARCHAR:
        return type_.length is not None
    return type_.kind in (Kind.UUID, *_JSON)


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _is_number_for(given: pa.DataType, type_: SqlType) -> bool:
    """Numbers for a NUMERIC column: they are rounded to its scale, or out of range, as in SQL."""
    return type_.kind is Kind.NUMERIC and bool(
        pa.types.is_integer(given) or pa.types.is_floating(given) or pa.types.is_decimal(given)
    )
