"""sum and avg with PostgreSQL's result types: exact for integers and NUMERIC."""

from __future__ import annotations

from streamsql.core.types import (
    BIGINT,
    DOUBLE,
    INTEGER,
    INTERVAL,
    NUMERIC,
    REAL,
    SMALLINT,
    SqlType,
    array_of,
    numeric,
)  # fmt: skip
from streamsql.functions.aggregates.exact import exact_sql
from streamsql.functions.aggregates.overflow import checked_sum
from streamsql.functions.definitions import AggregateDef, AggregateSql
from streamsql.functions.duckdb_udfs import kernel_sql
from streamsql.functions.numeric_types import MIN_DIVISION_SCALE, digits, is_bare
from streamsql.functions.scalar.lazy import lazy

SUM_OF_BIGINT = numeric(38, 0, constrained=False)
AVG_OF_INTEGER = numeric(38, MIN_DIVISION_SCALE, constrained=False)
_COUNT = numeric(19, 0)


def _sum_type(types: tuple[SqlType, ...]) -> SqlType:
    return NUMERIC if is_bare(types[0]) else numeric(38, digits(types[0])[1], constrained=False)


def _avg_type(types: tuple[SqlType, ...]) -> SqlType:
    return numeric(38, max(MIN_DIVISION_SCALE, digits(types[0])[1]), constrained=False)


_divide = lazy("decimals", "divide")
_divide_interval = lazy("interval_arithmetic", "interval_divide")


def _exact_avg(a: AggregateSql) -> str:
    """sum / count in exact decimals; DuckDB's avg is a double."""
    total = numeric(38, digits(a.types[0])[1])
    x = f"{a.distinct}{a.args[0]}"
    parts = (
        f"CAST(sum({x}){a.tail} AS {total.duckdb})",
        f"CAST(count({x}){a.tail} AS {_COUNT.duckdb})",
    )
    return kernel_sql("divide", _divide, parts, (total, _COUNT), a.result)


def _interval_sum(a: AggregateSql) -> str:
    """Part by part: DuckDB does not add intervals up."""
    x, tail = a.args[0], a.tail
    if a.distinct:
        return _of_distinct("sum_distinct", a)
    months = f"sum(datepart('year', {x}) * 12 + datepart('month', {x})){tail}"
    days = f"sum(datepart('day', {x})){tail}"
    clock = (
        f"datepart('hour', {x}) * 3600000000 + datepart('minute', {x}) * 60000000 "
        f"+ datepart('microsecond', {x})"
    )
    us = f"sum(CAST({clock} AS BIGINT)){tail}"
    return (
        f"(to_months(CAST({months} AS INTEGER)) + to_days(CAST({days} AS INTEGER))"
        f" + to_microseconds(CAST({us} AS BIGINT)))"
    )


def _of_distinct(kernel: str, a: AggregateSql) -> str:
    """Parts do not tell which intervals are equal: '1 month' is '30 days'."""
    x = a.args[0]
    sorted_ = f"list({x} ORDER BY {x}, CAST({x} AS VARCHAR)){a.tail}"
    types = (array_of(INTERVAL),)
    return kernel_sql(kernel, lazy("interval_lists", kernel), [sorted_], types, INTERVAL)


def _interval_avg(a: AggregateSql) -> str:
    if a.distinct:
        return _of_distinct("avg_distinct", a)
    count = f"CAST(count({a.args[0]}){a.tail} AS DOUBLE)"
    parts = (_interval_sum(a), count)
    return kernel_sql("interval_divide", _divide_interval, parts, (INTERVAL, DOUBLE), INTERVAL)


def _double(function: str) -> object:
    def write(a: AggregateSql) -> str:
        exact = exact_sql(function, a)
        if exact is not None:
            return exact
        sql = f"{function}({a.distinct}CAST({a.args[0]} AS DOUBLE)){a.tail}"
        return checked_sum(sql, a)

    return write


def _sum(t: SqlType, result: object, accumulator: str, **more: object) -> AggregateDef:
    return AggregateDef(name="sum", args=(t,), result=result, incremental="linear",  # type: ignore[arg-type]
                        accumulator=accumulator, **{"sql": "sum", **more})  # type: ignore[arg-type]  # fmt: skip


def _avg(t: SqlType, result: object, accumulator: str, sql: object) -> AggregateDef:
    return AggregateDef(name="avg", args=(t,), result=result, incremental="linear",  # type: ignore[arg-type]
                        accumulator=accumulator, sql=sql)  # type: ignore[arg-type]  # fmt: skip


AGGREGATES: tuple[AggregateDef, ...] = (
    _sum(INTEGER, BIGINT, "sum_int64"),
    _sum(SMALLINT, BIGINT, "sum_int64"),
    _sum(BIGINT, SUM_OF_BIGINT, "sum_int128"),
    _sum(NUMERIC, _sum_type, "sum_decimal"),
    _sum(DOUBLE, DOUBLE, "sum_double", sql=_double("sum")),
    _sum(REAL, REAL, "sum_double", sql=_double("sum")),
    _sum(INTERVAL, INTERVAL, "sum_interval", sql=_interval_sum),
    *(_avg(t, AVG_OF_INTEGER, "avg_int128", _exact_avg) for t in (INTEGER, BIGINT, SMALLINT)),
    _avg(NUMERIC, _avg_type, "avg_decimal", _exact_avg),
    _avg(DOUBLE, DOUBLE, "avg_double", _double("avg")),
    _avg(REAL, DOUBLE, "avg_double", _double("avg")),
    _avg(INTERVAL, INTERVAL, "avg_interval", _interval_avg),
)
