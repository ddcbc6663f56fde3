"""count, sum, avg, min, max, bool_and, bool_or."""

from __future__ import annotations

from streamsql.core.types import (
    BIGINT,
    BOOLEAN,
    BYTEA,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    NUMERIC,
    REAL,
    SMALLINT,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    SqlType,
    numeric,
)  # fmt: skip
from streamsql.functions.definitions import AggregateDef, Poly
from streamsql.functions.numeric_types import MIN_DIVISION_SCALE, digits, is_bare

SUM_OF_BIGINT = numeric(38, 0, constrained=False)
AVG_OF_INTEGER = numeric(38, MIN_DIVISION_SCALE, constrained=False)


def _numeric_sum(types: tuple[SqlType, ...]) -> SqlType:
    return NUMERIC if is_bare(types[0]) else numeric(38, digits(types[0])[1], constrained=False)


def _numeric_avg(types: tuple[SqlType, ...]) -> SqlType:
    return numeric(38, max(MIN_DIVISION_SCALE, digits(types[0])[1]), constrained=False)


ORDERED: tuple[SqlType, ...] = (
    INTEGER, BIGINT, SMALLINT, NUMERIC, DOUBLE, REAL, TEXT, DATE, TIME, TIMESTAMP, TIMESTAMPTZ,
    INTERVAL, BYTEA,
)  # fmt: skip


def _same(types: tuple[SqlType, ...]) -> SqlType:
    return types[0]


def _extremes() -> list[AggregateDef]:
    made: list[AggregateDef] = []
    for name in ("min", "max"):
        for t in (*ORDERED, Poly.ANYARRAY):
            made.append(AggregateDef(
                name=name, args=(t,), result=_same, sql=f"{name}({{0}})",
                incremental="min_max", accumulator=name,
            ))  # fmt: skip
    return made


AGGREGATES: tuple[AggregateDef, ...] = (
    AggregateDef(name="count_star", args=(), result=BIGINT, sql="count(*)", incremental="linear",
                 accumulator="count", empty="0", ignores_nulls=False),
    AggregateDef(name="count", args=(Poly.ANY,), result=BIGINT, sql="count({distinct}{0})",
                 incremental="linear", accumulator="count", empty="0"),
    AggregateDef(name="sum", args=(INTEGER,), result=BIGINT, sql="sum({distinct}{0})",
                 incremental="linear", accumulator="sum_int64"),
    AggregateDef(name="sum", args=(SMALLINT,), result=BIGINT, sql="sum({distinct}{0})",
                 incremental="linear", accumulator="sum_int64"),
    AggregateDef(name="sum", args=(BIGINT,), result=SUM_OF_BIGINT, sql="sum({distinct}{0})",
                 incremental="linear", accumulator="sum_int128"),
    AggregateDef(name="sum", args=(NUMERIC,), result=_numeric_sum, sql="sum({distinct}{0})",
                 incremental="linear", accumulator="sum_decimal"),
    AggregateDef(name="sum", args=(DOUBLE,), result=DOUBLE, sql="sum({distinct}{0})",
                 incremental="linear", accumulator="sum_double"),
    AggregateDef(name="sum", args=(REAL,), result=REAL, sql="sum({distinct}{0})",
                 incremental="linear", accumulator="sum_double"),
    *(
        AggregateDef(name="avg", args=(t,), result=AVG_OF_INTEGER, incremental="linear",
                     accumulator="avg_int128", sql="avg({distinct}{0})")
        for t in (INTEGER, BIGINT, SMALLINT)
    ),
    AggregateDef(name="avg", args=(NUMERIC,), result=_numeric_avg, incremental="linear",
                 accumulator="avg_decimal", sql="avg({distinct}{0})"),
    AggregateDef(name="avg", args=(DOUBLE,), result=DOUBLE, incremental="linear",
                 accumulator="avg_double", sql="avg({distinct}{0})"),
    AggregateDef(name="avg", args=(REAL,), result=DOUBLE, incremental="linear",
                 accumulator="avg_double", sql="avg({distinct}CAST({0} AS DOUBLE))"),
    *_extremes(),
    AggregateDef(name="bool_and", aliases=("every",), args=(BOOLEAN,), result=BOOLEAN,
                 sql="bool_and({0})", incremental="linear", accumulator="bool_and"),
    AggregateDef(name="bool_or", args=(BOOLEAN,), result=BOOLEAN, sql="bool_or({0})",
                 incremental="linear", accumulator="bool_or"),
)  # fmt: skip
