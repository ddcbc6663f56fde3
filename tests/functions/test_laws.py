"""Laws over the whole registry: every overload runs in both evaluators, gives its declared type, and is
NULL for NULL arguments if it says so."""

from __future__ import annotations

from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from streamsql.core.errors import StreamSqlError
from streamsql.core.schema import Column, Schema
from streamsql.core.types import (
    INTEGER,
    TEXT,
    Kind,
    SqlType,
    array_of,
    map_of,
    struct_of,
)  # fmt: skip
from streamsql.functions import duckdb_eval
from streamsql.functions.definitions import FunctionDef, Poly
from streamsql.functions.evaluator import Evaluator
from streamsql.functions.expressions import Call, column, literal
from streamsql.functions.resolve import result_type
from streamsql.functions.scalar import FUNCTIONS
from streamsql.functions.textio import parse_text
from tests.functions.support import NOW_US, same

SAMPLES: dict[Kind, str] = {
    Kind.BOOLEAN: "t", Kind.SMALLINT: "3", Kind.INTEGER: "2", Kind.BIGINT: "5", Kind.NUMERIC: "2.5",
    Kind.REAL: "1.5", Kind.DOUBLE: "1.5", Kind.TEXT: "abc", Kind.BYTEA: "\\x6162",
    Kind.DATE: "2020-02-29", Kind.TIME: "10:20:30", Kind.TIMESTAMP: "2020-02-29 10:20:30.5",
    Kind.TIMESTAMPTZ: "2020-02-29 10:20:30.5+00", Kind.INTERVAL: "1 day 02:03:04", Kind.JSON: "[1, 2]",
    Kind.JSONB: "[1, 2]", Kind.UUID: "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
}  # fmt: skip
# arguments that must say something particular
TEXTS: dict[tuple[str, int], str] = {
    ("extract", 0): "day", ("date_part", 0): "day", ("date_trunc", 0): "day", ("date_trunc", 2): "UTC",
    ("timezone", 0): "Europe/Paris", ("encode", 1): "hex", ("decode", 0): "6162", ("decode", 1): "hex",
    ("to_date", 0): "2020", ("to_date", 1): "YYYY", ("to_timestamp", 0): "2020", ("to_timestamp", 1): "YYYY",
    ("to_number", 0): "12", ("to_number", 1): "99", ("like", 2): "\\", ("ilike", 2): "\\", ("similar_to", 2): "\\",
    ("timestampadd", 0): "day", ("timestampdiff", 0): "day", ("date_format", 0): "2020-01-01 00:00:00",
    ("date_format", 1): "yyyy", ("make_timestamptz", 6): "UTC", ("regexp_replace", 3): "g",
    ("regexp_match", 2): "i", ("regexp_like", 2): "i", ("regexp_count", 3): "i", ("substring_similar", 2): "#",
    ("regexp_substr", 4): "i", ("regexp_instr", 5): "i", ("regexp_replace", 5): "i",
    ("normalize", 1): "NFC", ("is_normalized", 1): "NFC", ("convert_from", 1): "UTF8",
    ("convert_to", 1): "UTF8", ("convert", 1): "UTF8", ("convert", 2): "UTF8", ("octet_length", 1): "UTF8",
    ("jsonb_set_lax", 4): "delete_key",
    ("regexp_split_to_array", 2): "i", ("regexp_matches_array", 2): "g", ("format", 0): "%s",
}  # fmt: skip
ARRAYS = {("like_any", 1): "{a%,x}"}
JSON_TEXTS = {
    "json_keys_array", "jsonb_keys_array", "json_values_array", "jsonb_values_array",
    "json_values_text_array", "jsonb_values_text_array", "jsonb_object_keys",
}  # fmt: skip
ANY_TYPES = {
    Poly.ANY: INTEGER, Poly.ANYELEMENT: INTEGER, Poly.ANYNONARRAY: INTEGER, Poly.ANYCOMPATIBLE: INTEGER,
    Poly.ANYARRAY: array_of(INTEGER), Poly.ANYCOMPATIBLEARRAY: array_of(INTEGER),
    Poly.ANYSTRUCT: struct_of((("x", INTEGER), ("y", TEXT))), Poly.ANYMAP: map_of(TEXT, INTEGER),
}  # fmt: skip
NESTED = {Kind.ARRAY: "{1,2,3}", Kind.STRUCT: '{"x": 1, "y": "z"}', Kind.MAP: '{"k": 7}'}
CONSTRUCTED = {"array", "row", "field", "map"}  # typed by special.py
REFUSES_NULL = {"array_fill", "json_object_key"}


def _types(d: FunctionDef) -> list[SqlType]:
    patterns = d.patterns(len(d.args) + (1 if d.variadic else 0))
    assert patterns is not None
    found = [ANY_TYPES[p] if isinstance(p, Poly) else p for p in patterns]
    if d.name == "map_get":
        found[1] = TEXT
    return found


def _sample(d: FunctionDef, i: int, t: SqlType) -> pa.Array:
    if d.name in ("extract", "date_part") and i == 0:
        clock = isinstance(d.args[1], SqlType) and d.args[1].kind in (Kind.TIME, Kind.INTERVAL)
        return pa.array(["hour" if clock else "day"])
    if d.name in ("asin", "acos", "atanh", "asind", "acosd"):
        return parse_text(pa.array(["0.5"]), t)
    if (d.name, i) in (("set_bit", 2), ("get_byte", 1), ("set_byte", 1), ("regexp_instr", 4)):
        return parse_text(pa.array(["1"]), t)
    if d.name == "varchar_assign" and i == 1:
        return parse_text(pa.array(["3"]), t)
    if d.name == "width_bucket" and i == 2:
        return parse_text(pa.array(["9"]), t)
    if d.name in ("to_timestamp_ltz", "from_unixtime") and i == 1:
        return parse_text(pa.array(["3"]), t)
    if (d.name, i) in ARRAYS:
        return parse_text(pa.array([ARRAYS[d.name, i]]), t)
    text = TEXTS.get((d.name, i)) if t.is_text else None
    if text is None:
        text = NESTED.get(t.kind) or SAMPLES[t.kind]
    if t.element == TEXT:
        text = "{a,b}"
    if t.element is not None and t.element.kind is Kind.INTEGER and d.name == "array_fill":
        text = "{2}"
    if t.element is not None and t.element.element == TEXT:
        text = "{{a,b}}"
    if d.name in JSON_TEXTS:
        text = '{"a": 1}'
    if (
        d.name in ("jsonb_set", "jsonb_set_lax", "jsonb_insert", "jsonb_delete_path")
        and t.element == TEXT
    ):
        text = "{0}"
    return parse_text(pa.array([text]), t)


def _case(d: FunctionDef) -> tuple[Call, Schema, pa.RecordBatch]:
    """A call over columns: row 0 has samples, row i + 1 has NULL in argument i."""
    types = _types(d)
    schema = Schema(tuple(Column(f"a{i}", t) for i, t in enumerate(types)))
    arrays = []
    for i, t in enumerate(types):
        sample = _sample(d, i, t)
        if d.name.endswith("build_object") and i == 0:  # a NULL key is an error
            arrays.append(pa.concat_arrays([sample] * (len(types) + 1)))
            continue
        rows = [sample if row != i + 1 else pa.nulls(1, t.arrow) for row in range(len(types) + 1)]
        arrays.append(pa.concat_arrays(rows))
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)
    args = tuple(column(i, t) for i, t in enumerate(types))
    type_ = d.result_of(args) if d.result_of else result_type(d, tuple(types))
    return Call(function=d.name, args=args, type=type_), schema, batch


DEFINITIONS = [
    d for d in FUNCTIONS
    if d.args and not d.internal and d.name not in CONSTRUCTED | REFUSES_NULL and d.coerce_to is None and d.volatility.value != "volatile"
]  # fmt: skip
CHUNKS = [DEFINITIONS[i : i + 80] for i in range(0, len(DEFINITIONS), 80)]


@pytest.mark.parametrize("chunk", CHUNKS, ids=lambda c: c[0].name)
def test_every_overload_agrees_and_keeps_its_promise_about_null(chunk: list[FunctionDef]) -> None:
    wrong: list[Any] = []
    for d in chunk:
        call, schema, batch = _case(d)
        shown = f"{d.name}({', '.join(str(a.type) for a in call.args)})"
        try:
            evaluator = Evaluator([call], schema)
            found = evaluator.run(batch, NOW_US)[0]
            other = duckdb_eval.run([call], batch, NOW_US, "UTC")[0]
        except StreamSqlError as e:
            wrong.append((shown, str(e)))
            continue
        if found.type != call.type.arrow or not same(found, other):
            wrong.append((shown, found.to_pylist(), other.to_pylist()))
        if d.strict and any(found[i].is_valid for i in range(1, len(found))):
            wrong.append((shown, "is not NULL for NULL", found.to_pylist()))
        if d.strict and not found[0].is_valid and d.name not in ("regexp_match", "substring_regex",
                "json_get", "json_get_text", "regexp_substr", "regexp_extract", "substring_similar",
                "json_get_path", "json_get_path_text", "jsonb_extract_path", "json_extract_path",
                "jsonb_extract_path_text", "json_extract_path_text", "map_get", "array_ndims",
                "array_length", "split_index", "array_lower", "array_position"):  # fmt: skip
            wrong.append((shown, "is NULL for the sample"))
    assert wrong == []


@pytest.mark.parametrize("chunk", CHUNKS, ids=lambda c: c[0].name)
def test_constant_arguments_mean_the_same_as_columns_of_them(chunk: list[FunctionDef]) -> None:
    wrong: list[Any] = []
    for d in chunk:
        call, schema, batch = _case(d)
        row = batch.slice(0, 1)
        as_column = Evaluator([call], schema).run(row, NOW_US)[0]
        for choice in product((False, True), repeat=min(len(call.args), 3)):
            fixed = tuple(
                _constant(row.column(i), a.type) if i < len(choice) and choice[i] else a
                for i, a in enumerate(call.args)
            )
            mixed = Call(function=d.name, args=fixed, type=call.type)
            found = Evaluator([mixed], schema).run(row, NOW_US)[0]
            if not same(found, as_column):
                wrong.append((d.name, choice, found.to_pylist(), as_column.to_pylist()))
    assert wrong == []


def _constant(array: pa.Array, t: SqlType) -> Any:
    from streamsql.functions.literals import from_arrow_scalar

    made = from_arrow_scalar(array[0], t)
    return literal(made.value, t)
