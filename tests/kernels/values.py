"""Strategies of values by SQL type, and what it means that two of them are one key."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from streamsql.core import types as t
from streamsql.core.schema import Schema

DECIMAL = t.numeric(38, 4)

STRATEGIES: dict[t.SqlType, st.SearchStrategy[Any]] = {
    t.BOOLEAN: st.booleans(),
    t.SMALLINT: st.integers(-(2**15), 2**15 - 1),
    t.INTEGER: st.integers(-2, 2),
    t.BIGINT: st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63)]) | st.integers(-5, 5),
    t.REAL: st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf]),
    t.DOUBLE: st.sampled_from([0.0, -0.0, 1.5, math.nan, -math.inf, 1e300]),
    DECIMAL: st.integers(-(10**37), 10**37).map(lambda i: Decimal(i).scaleb(-4))
    | st.integers(-3, 3).map(Decimal),
    t.TEXT: st.text(max_size=40) | st.sampled_from(["", "a", "ab", "abc", "a" * 16, "a" * 17]),
    t.BYTEA: st.binary(max_size=9),
    t.DATE: st.dates(),
    t.TIME: st.times(),
    t.TIMESTAMP: st.datetimes(),
    t.TIMESTAMPTZ: st.datetimes(timezones=st.just(dt.UTC)),
    t.INTERVAL: st.tuples(
        st.integers(-2, 2),
        st.integers(-60, 60),
        st.integers(-2, 2).map(lambda h: h * 43200 * 10**9),
    ).map(lambda v: pa.MonthDayNano(v)),
    t.array_of(t.INTEGER): st.lists(st.none() | st.integers(-1, 1), max_size=3),
    t.array_of(t.TEXT): st.lists(st.none() | st.text(max_size=2), max_size=3),
    t.struct_of((("x", t.INTEGER), ("y", t.TEXT))): st.fixed_dictionaries(
        {"x": st.none() | st.integers(0, 1), "y": st.none() | st.sampled_from(["", "p"])}
    ),
    t.map_of(t.TEXT, t.INTEGER): st.dictionaries(
        st.sampled_from("ab"), st.integers(0, 1), max_size=2
    ).map(lambda d: list(d.items())),
    t.array_of(t.array_of(t.DOUBLE)): st.lists(
        st.lists(st.sampled_from([0.0, -0.0, 1.0]), max_size=2), max_size=2
    ),
}

ALL_TYPES = list(STRATEGIES)


def column(type_: t.SqlType, n: int) -> st.SearchStrategy[list[Any]]:
    """n values of the type, NULLs among them."""
    return st.lists(st.none() | STRATEGIES[type_], min_size=n, max_size=n)


@st.composite
def rows_of(
    draw: st.DrawFn, max_rows: int = 12, max_columns: int = 3, types: list[t.SqlType] | None = None
) -> tuple[Schema, list[tuple[Any, ...]]]:
    """A schema and rows for it; values repeat often."""
    chosen = draw(st.lists(st.sampled_from(types or ALL_TYPES), min_size=1, max_size=max_columns))
    schema = Schema.of(*[(f"c{i}", type_) for i, type_ in enumerate(chosen)])
    pools = [draw(column(type_, 4)) for type_ in chosen]
    row = st.tuples(*[st.sampled_from(pool) for pool in pools])
    return schema, draw(st.lists(row, max_size=max_rows))


def batch_of(schema: Schema, rows: list[tuple[Any, ...]], padding: int = 0) -> pa.RecordBatch:
    """The rows as a RecordBatch; with padding it is a slice, so that its arrays have offsets."""
    padded = rows[:1] * padding + rows if rows else rows
    arrays = [
        pa.array([row[i] for row in padded], field.type) for i, field in enumerate(schema.arrow)
    ]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)
    return batch.slice(padding) if rows else batch


def key_of(value: Any, exact: bool) -> Any:
    """A Python value that is equal exactly when the SQL values are one key."""
    if value is None:
        return ("null",)
    if isinstance(value, float):
        if math.isnan(value):
            return ("nan",)
        return (value, math.copysign(1, value) if exact and value == 0 else 0)
    if isinstance(value, pa.MonthDayNano):
        if exact:
            return tuple(value)
        return (value.months * 30 + value.days) * 86_400 * 10**9 + value.nanoseconds
    if isinstance(value, dict):
        return tuple(key_of(v, exact) for _, v in sorted(value.items()))
    if isinstance(value, list | tuple):
        return tuple(key_of(v, exact) for v in value)
    return value


def row_key(row: tuple[Any, ...], exact: bool) -> Any:
    """`key_of` for rows."""
    return tuple(key_of(v, exact) for v in row)
