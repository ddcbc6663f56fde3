"""JSON, one document a line: schema-driven, nested columns, keys found by name or by path.

The good path is one DuckDB call per block (`json_transform_strict` over all its documents). A block
that it refuses, because a key is absent or a value is wrong, is read once more leniently, and only
the values that came out NULL are looked at again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
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
    syntax_error,
)
from streamsql.connectors.formats.text import (
    BOM,
    bool_mask,
    filled_records,
    invalid_utf8,
    line_ends,
    record_text,
    record_texts,
    without,
)
from streamsql.core.delta import make_batch
from streamsql.core.errors import InvalidParameterValue
from streamsql.core.schema import Column, Schema
from streamsql.core.types import Kind, SqlType

_FROM_TEXT = {Kind.UUID, Kind.BYTEA, Kind.TIMESTAMP, Kind.TIMESTAMPTZ}
_UNIT_TO_US = {"s": "* 1000000", "ms": "* 1000", "us": "", "ns": "// 1000"}


class JsonFormat(TextFormat):
    """ENCODE JSON. Options: path.<column> = 'a.b.c' (or '$' for the whole document),
    timestamp_unit = s | ms (default) | us | ns: what a number in a TIMESTAMP column means."""

    def __init__(self, schema: Schema, options: Options) -> None:
        self.schema = schema
        unit = options.choice("timestamp_unit", among=tuple(_UNIT_TO_US), default="ms")
        self._to_us = _UNIT_TO_US[unit]
        given = options.starting_with("path.")
        self._paths: dict[int, tuple[str, ...]] = {}
        for name, path in given.items():
            self._paths[_column_index(schema, name)] = _split_path(path)
        self._open = [i for i in range(len(schema)) if i not in self._paths]
        self._lenient = False
        self._caster: Caster | None = None
        self._spec()

    def record_ends(self, data: bytes) -> Int64Array:
        """JSON escapes line feeds inside strings, so every line feed ends a document."""
        return line_ends(data)

    def header_end(self, data: bytes, ends: Int64Array) -> int:
        """A byte order mark is no part of the first document."""
        return len(BOM) if data.startswith(BOM) else 0

    def parse(self, data: bytes, ends: Int64Array) -> Parsed:
        """One document a record. Raises nothing for bad ones: they are listed."""
        broken = invalid_utf8(data, ends)
        bad = [
            BadRecord(int(r), cut_payload(record_text(data, ends, int(r))), _ENCODING)
            for r in broken
        ]
        records = without(filled_records(data, ends), broken)
        if len(broken):
            pieces = [data[(int(ends[r - 1]) if r else 0) : int(ends[r])] for r in records.tolist()]
            texts = pa.array(pieces, pa.binary()).cast(pa.string())
        else:
            texts = record_texts(data, ends, records)
        self._resolve(data, texts)
        parsed = self._parse_texts(texts, records)
        return Parsed(parsed.batch, parsed.records, sorted(bad + parsed.bad, key=_record))

    # --- names ------------------------------------------------------------------------------------
    def _resolve(self, data: bytes, texts: pa.Array) -> None:
        """Find the key of each column that has none yet: the exact name, else one that differs only
        in case (an unquoted column name was folded). Once found it is kept."""
        if not self._open or not len(texts):
            return
        lowered = data.lower()
        wanted = [i for i in self._open if f'"{self.schema[i].name.lower()}"'.encode() in lowered]
        if not wanted:
            return
        sql = (
            "SELECT DISTINCT unnest(json_keys(a)) AS k FROM input "
            "WHERE json_valid(a) AND json_type(a) = 'OBJECT'"
        )
        keys = sorted(self._duck().query(sql, pa.table({"a": texts})).column(0).to_pylist())
        for i in wanted:
            name = self.schema[i].name
            matching = [k for k in keys if k == name] or [
                k for k in keys if k.lower() == name.lower()
            ]
            if matching:
                self._paths[i] = (matching[0],)
                self._open.remove(i)

    def _path(self, index: int) -> tuple[str, ...]:
        return self._paths.get(index, (self.schema[index].name,))

    # --- reading ----------------------------------------------------------------------------------
    def _parse_texts(self, texts: pa.Array, records: Int64Array) -> Parsed:
        import duckdb

        if not len(texts):
            return Parsed(self._batch([], 0), records)
        table = pa.table({"a": texts})
        if not self._lenient:
            try:
                done = self._duck().query(self._sql(attempt=False), table)
                return Parsed(self._batch(done.columns, done.num_rows), records)
            except duckdb.Error as error:
                # documents without some key are usual: such a feed goes the lenient way from now on
                self._lenient = "does not have key" in str(error)
        done = self._duck().query(self._sql(attempt=True), table)
        return self._sort_out(done, texts, records)

    def _spec(self) -> dict[str, Any]:
        """What DuckDB is to take out of a document.

        Raises: InvalidParameterValue (22023) for a path through what is a column itself.
        """
        spec: dict[str, Any] = {}
        for i, column in enumerate(self.schema):
            _put(spec, self._path(i), _transform_type(column.type, top=True))
        return spec

    def _sql(self, *, attempt: bool) -> str:
        spec = self._spec()
        transform = "json_transform" if attempt else "json_transform_strict"
        values = [
            f"{self._value(i, column, attempt)} AS c{i}" for i, column in enumerate(self.schema)
        ]
        source = f"SELECT a, {transform}(a, {_quote(json.dumps(spec))}) AS x FROM input"
        if not attempt:
            return f"SELECT {', '.join(values) or 'a'} FROM ({source})"
        valid = (
            "SELECT CASE WHEN json_valid(a) THEN CASE WHEN json_type(a) = 'OBJECT' THEN a END END"
            " AS a FROM input"
        )
        source = source.replace("FROM input", f"FROM ({valid})")
        checks = ["a IS NULL AS is_bad"] + [
            f"{_is_wrong(f'c{i}', self._path(i), column.type)} AS b{i}"
            for i, column in enumerate(self.schema)
        ]
        return f"SELECT *, {', '.join(checks)} FROM (SELECT a, {', '.join(values)} FROM ({source}))"

    def _value(self, index: int, column: Column, attempt: bool) -> str:
        path = self._path(index)
        value = _WHOLE if not path else "x" + "".join(f"[{_quote(key)}]" for key in path)
        kind = column.type.kind
        if kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
            cast = "TRY_CAST" if attempt else "CAST"
            number = f"make_timestamp({cast}({value} AS BIGINT) {self._to_us})"
            if kind is Kind.TIMESTAMPTZ:
                number = f"CAST({number} AS TIMESTAMPTZ)"
            text = cast_sql(value, column.type, attempt=attempt)
            return f"CASE WHEN regexp_full_match({value}, '-?[0-9]+') THEN {number} ELSE {text} END"
        if kind in _FROM_TEXT:
            return cast_sql(value, column.type, attempt=attempt)
        if kind in (Kind.JSON, Kind.JSONB):
            return f"CAST({value} AS VARCHAR)"
        return value

    def _sort_out(self, done: pa.Table, texts: pa.Array, records: Int64Array) -> Parsed:
        flags = {"": bool_mask(combined(done.column("is_bad")))}
        for i in range(len(self.schema)):
            flags[str(i)] = bool_mask(combined(done.column(f"b{i}")))
        wrong = np.logical_or.reduce(list(flags.values()))
        columns = [done.column(f"c{i}") for i in range(len(self.schema))]
        if not wrong.any():
            return Parsed(self._batch(columns, done.num_rows), records)
        bad = []
        for row in np.flatnonzero(wrong).tolist():
            text = texts[row].as_py().rstrip("\r\n")
            bad.append(
                BadRecord(int(records[row]), cut_payload(text), self._reason(text, flags, row))
            )
        keep = pa.array(np.flatnonzero(~wrong))
        batch = self._batch([c.take(keep) for c in columns], len(keep))
        return Parsed(batch, records[~wrong], bad)

    def _reason(self, text: str, flags: Mapping[str, Any], row: int) -> str:
        if flags[""][row]:
            try:
                json.loads(text)
            except ValueError as error:
                return f"invalid input syntax for type json: {error}"
            return "JSON document is not an object"
        for i, column in enumerate(self.schema):
            if flags[str(i)][row]:
                value = json.loads(text)
                for key in self._path(i):
                    value = value.get(key) if isinstance(value, dict) else None
                shown = value if isinstance(value, str) else json.dumps(value)
                return f'{syntax_error(column.type, shown)} in column "{column.name}"'
        raise AssertionError("a row without a reason is no bad row")

    def _batch(self, columns: list[Any], num_rows: int) -> pa.RecordBatch:
        if num_rows == 0:
            columns = [pa.nulls(0, c.type.arrow) for c in self.schema]
        arrays = [finish(combined(c), s.type) for c, s in zip(columns, self.schema, strict=False)]
        return make_batch(arrays, self.schema.arrow, num_rows)

    def _duck(self) -> Caster:
        if self._caster is None:
            self._caster = Caster()
        return self._caster


_WHOLE = "rtrim(a, chr(10) || chr(13))"
_ENCODING = 'invalid byte sequence for encoding "UTF8"'


def _record(bad: BadRecord) -> int:
    return bad.record


def _column_index(schema: Schema, name: str) -> int:
    for i, column in enumerate(schema):
        if column.name.lower() == name.lower():
            return i
    raise InvalidParameterValue(f'option "path.{name}" names no column of the source')


def _split_path(path: str) -> tuple[str, ...]:
    """'$.a.b', 'a.b' or '$'."""
    inner = path.removeprefix("$").strip(".")
    return tuple(inner.split(".")) if inner else ()


def _put(spec: dict[str, Any], path: tuple[str, ...], leaf: Any) -> None:
    if not path:
        return
    for key in path[:-1]:
        spec = spec.setdefault(key, {})
        if not isinstance(spec, dict):
            raise InvalidParameterValue(
                f'path through "{key}", which is a column of its own',
                hint=f"Declare {key} JSONB and take its fields in a view, or leave it out.",
            )
    # two columns may read one key: the wider text form serves both
    spec[path[-1]] = leaf if path[-1] not in spec or spec[path[-1]] == leaf else "VARCHAR"


def _transform_type(type_: SqlType, *, top: bool = False) -> Any:
    """The type in json_transform's structure."""
    kind = type_.kind
    if kind is Kind.ARRAY:
        assert type_.element is not None
        return [_transform_type(type_.element)]
    if kind is Kind.STRUCT:
        return {name: _transform_type(t) for name, t in type_.fields}
    if kind in (Kind.JSON, Kind.JSONB):
        return "JSON"
    if top and kind in _FROM_TEXT:
        return "VARCHAR"
    return type_.duckdb


def _is_wrong(value: str, path: tuple[str, ...], type_: SqlType) -> str:
    """DuckDB: TRUE where the value came out NULL although the document has one there."""
    at = _quote("$" + "".join(f'."{key}"' for key in path))
    here = f"coalesce(json_type(a, {at}), 'NULL') <> 'NULL'"
    if type_.kind is Kind.ARRAY:
        full = f"len(list_filter(json_extract(a, {at[:-1]}[*]'), lambda e: json_type(e) <> 'NULL'))"
        inner = (
            f"CASE WHEN list_count({value}) < len({value})"
            f" THEN list_count({value}) <> {full} ELSE false END"
        )
    elif type_.kind is Kind.STRUCT and type_.fields:
        parts = [
            _is_wrong(f"{value}[{_quote(name)}]", (*path, name), t) for name, t in type_.fields
        ]
        # a number where an object is declared comes out as a struct of NULLs
        shape = f"coalesce(json_type(a, {at}) NOT IN ('OBJECT', 'NULL'), false)"
        inner = " OR ".join([shape, *(f"({p})" for p in parts)])
    else:
        inner = "false"
    return f"CASE WHEN {value} IS NULL THEN {here} ELSE {inner} END"


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
