"""Functions that return rows: unnest, generate_series, jsonb_each and their kin.

Each is a scalar function that gives its column as an array (`arrays`), so an operator can compute
the rows with an Evaluator and DuckDB can unnest them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streamsql.core.schema import Column, Schema
from streamsql.core.types import (
    BIGINT,
    BOOLEAN,
    INTEGER,
    INTERVAL,
    JSON,
    JSONB,
    NUMERIC,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    SqlType,
    array_of,
)  # fmt: skip
from streamsql.functions.definitions import Pattern, Poly, SetReturningDef

SchemaRule = Callable[[tuple[SqlType, ...]], Schema]


def _one(name: str, t: SqlType) -> SchemaRule:
    return lambda types: Schema((Column(name, t),))


def _element(types: tuple[SqlType, ...]) -> Schema:
    """unnest goes through all dimensions."""
    t = types[0]
    while t.element is not None:
        t = t.element
    return Schema((Column("unnest", t),))


def _map_entries(types: tuple[SqlType, ...]) -> Schema:
    assert types[0].key is not None and types[0].value is not None
    return Schema((Column("key", types[0].key), Column("value", types[0].value)))


def _pair(key: SqlType, value: SqlType) -> SchemaRule:
    return lambda types: Schema((Column("key", key), Column("value", value)))


def _unnest_sql(a: Sequence[str], types: tuple[SqlType, ...], result: SqlType) -> str:
    sql = a[0]
    inner = types[0].element
    while inner is not None and inner.element is not None:
        sql = f"flatten({sql})"
        inner = inner.element
    return sql


def _call_sql(function: str) -> Callable[[Sequence[str], tuple[SqlType, ...], SqlType], str]:
    """SQL of the scalar function `function` of the registry."""

    def write(a: Sequence[str], types: tuple[SqlType, ...], result: SqlType) -> str:
        from streamsql.functions import registry
        from streamsql.functions.duckdb_sql import call_sql
        from streamsql.functions.resolve import result_type

        definition = registry.definition_of(function, types)
        return call_sql(definition, a, types, result_type(definition, types))

    return write


def _zip_sql(keys: str, items: str) -> Callable[[Sequence[str], tuple[SqlType, ...], SqlType], str]:
    first, second = _call_sql(keys), _call_sql(items)

    def write(a: Sequence[str], types: tuple[SqlType, ...], result: SqlType) -> str:
        zipped = f"list_zip({first(a, types, result)}, {second(a, types, result)})"
        return f"list_transform({zipped}, lambda p: {{'c0': p[1], 'c1': p[2]}})"

    return write


def _srf(
    name: str, args: tuple[Pattern, ...], schema: SchemaRule, array: str, *, optional: int = 0
) -> SetReturningDef:
    return SetReturningDef(
        name=name, args=args, schema=schema, sql=_call_sql(array), arrays=(array,),
        optional=optional,
    )  # fmt: skip


def _series() -> list[SetReturningDef]:
    made = [
        _srf("generate_series", (t, t, t), _one("generate_series", t), f"{kind}_series", optional=1)
        for t, kind in ((INTEGER, "integer"), (BIGINT, "integer"), (NUMERIC, "numeric"))
    ]
    made += [
        _srf("generate_series", (t, t, INTERVAL), _one("generate_series", t), "timestamp_series")
        for t in (TIMESTAMP, TIMESTAMPTZ)
    ]
    return made


def _json() -> list[SetReturningDef]:
    made: list[SetReturningDef] = []
    for prefix, t in (("jsonb", JSONB), ("json", JSON)):
        made += [
            _srf(f"{prefix}_array_elements", (t,), _one("value", t), f"{prefix}_elements_array"),
            _srf(f"{prefix}_array_elements_text", (t,), _one("value", TEXT),
                 f"{prefix}_elements_text_array"),
            _srf(f"{prefix}_object_keys", (t,), _one(f"{prefix}_object_keys", TEXT),
                 f"{prefix}_keys_array"),
        ]  # fmt: skip
        for suffix, value in (("", t), ("_text", TEXT)):
            names = (f"{prefix}_keys_array", f"{prefix}_values{suffix}_array")
            made.append(SetReturningDef(
                name=f"{prefix}_each{suffix}", args=(t,), schema=_pair(TEXT, value),
                sql=_zip_sql(*names), arrays=names,
            ))  # fmt: skip
    return made


SET_RETURNING: tuple[SetReturningDef, ...] = (
    SetReturningDef(name="unnest", args=(Poly.ANYARRAY,), schema=_element, sql=_unnest_sql,
                    arrays=("array_flatten",)),
    SetReturningDef(name="unnest", args=(Poly.ANYMAP,), schema=_map_entries,
                    sql=_zip_sql("map_keys", "map_values"), arrays=("map_keys", "map_values")),
    *_series(),
    *_json(),
    _srf("regexp_matches", (TEXT, TEXT, TEXT), _one("regexp_matches", array_of(TEXT)),
         "regexp_matches_array", optional=1),
    _srf("regexp_split_to_table", (TEXT, TEXT, TEXT), _one("regexp_split_to_table", TEXT),
         "regexp_split_to_array", optional=1),
    _srf("string_to_table", (TEXT, TEXT, TEXT), _one("string_to_table", TEXT), "string_to_array",
         optional=1),
    _srf("generate_subscripts", (Poly.ANYARRAY, INTEGER, BOOLEAN),
         _one("generate_subscripts", INTEGER), "array_subscripts", optional=1),
)  # fmt: skip
