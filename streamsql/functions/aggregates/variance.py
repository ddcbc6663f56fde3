"""var_pop, var_samp (variance), stddev_pop, stddev_samp (stddev).

Floats: in double precision. Integers and NUMERIC: from exact sums of x and x², as PostgreSQL does,
where those fit in 38 digits; otherwise in double precision too, brought to NUMERIC.
"""

from __future__ import annotations

from streamsql.core.types import (
    BIGINT,
    DOUBLE,
    INTEGER,
    NUMERIC,
    REAL,
    SMALLINT,
    Kind,
    numeric,
)  # fmt: skip
from streamsql.functions.aggregates.overflow import checked_spread
from streamsql.functions.definitions import AggregateDef, AggregateSql
from streamsql.functions.duckdb_udfs import cast_udf_sql, kernel_sql
from streamsql.functions.numeric_types import MIN_DIVISION_SCALE, digits
from streamsql.functions.scalar.lazy import lazy

RESULT = numeric(38, MIN_DIVISION_SCALE, constrained=False)
_ALIASES = {"var_samp": ("variance",), "stddev_samp": ("stddev",)}
_SMALL_ENOUGH = 3_000_000_000  # squares of smaller integers leave room for 10^19 rows


def _in_double(name: str, a: AggregateSql) -> str:
    return f"{name}({a.distinct}CAST({a.args[0]} AS DOUBLE)){a.tail}"


def _exact(name: str, a: AggregateSql) -> str:
    precision, scale = digits(a.types[0])
    x = f"CAST({a.args[0]} AS DECIMAL({precision},{scale}))"
    total, squares = numeric(38, scale), numeric(38, 2 * scale)
    if a.distinct:  # squares do not tell which values differ
        values = f"list_filter(list(DISTINCT {x}){a.tail}, lambda v: v IS NOT NULL)"
        squared = f"list_transform({values}, lambda v: CAST(v AS DECIMAL(38,{scale})) * v)"
        parts = (
            f"CAST(len({values}) AS BIGINT)",
            f"CAST(list_sum({values}) AS {total.duckdb})",
            f"CAST(list_sum({squared}) AS {squares.duckdb})",
        )
        types = (BIGINT, total, squares)
        return kernel_sql(name, lazy("moments", name), parts, types, a.result, strict=False)
    parts = (
        f"CAST(count({a.distinct}{a.args[0]}){a.tail} AS BIGINT)",
        f"CAST(sum({a.distinct}{x}){a.tail} AS {total.duckdb})",
        f"CAST(sum({a.distinct}CAST({x} AS DECIMAL(38,{scale})) * {x}){a.tail}"
        f" AS {squares.duckdb})",
    )
    types = (BIGINT, total, squares)
    return kernel_sql(name, lazy("moments", name), parts, types, a.result, strict=False)


def _numeric(name: str) -> object:
    def write(a: AggregateSql) -> str:
        rounded = cast_udf_sql(_in_double(name, a), DOUBLE, a.result, "UTC")
        precision, _ = digits(a.types[0])
        if a.types[0].kind in (Kind.SMALLINT, Kind.INTEGER):
            return _exact(name, a)
        if a.types[0].kind is Kind.BIGINT:
            largest = f"max(abs(CAST({a.args[0]} AS HUGEINT))){a.tail}"
            small = _exact(name, _clamped(a))
            return f"CASE WHEN {largest} < {_SMALL_ENOUGH} THEN {small} ELSE {rounded} END"
        return _exact(name, a) if 2 * precision <= 28 else rounded

    return write


def _clamped(a: AggregateSql) -> AggregateSql:
    """Both branches of CASE are computed, so what would overflow is NULL in the exact one."""
    x = a.args[0]
    inside = f"CASE WHEN {x} BETWEEN -{_SMALL_ENOUGH} AND {_SMALL_ENOUGH} THEN {x} END"
    return AggregateSql(args=[inside], types=(numeric(10, 0),), result=a.result,
                        distinct=a.distinct, order=a.order, tail=a.tail)  # fmt: skip


def _family(name: str) -> list[AggregateDef]:
    def double(a: AggregateSql) -> str:
        found = checked_spread(_in_double(name, a), a)
        if " OVER (" in a.tail:
            return found
        finite = f"bool_and(isfinite({a.args[0]})){a.tail}"  # also of one value
        return f"CASE WHEN {finite} OR {found} IS NULL THEN {found} ELSE 'NaN'::DOUBLE END"

    made: list[AggregateDef] = []
    for t in (INTEGER, BIGINT, SMALLINT, NUMERIC):
        accumulator = "moments_decimal" if t is NUMERIC else "moments_int128"
        made.append(AggregateDef(
            name=name, aliases=_ALIASES.get(name, ()), args=(t,), result=RESULT,
            sql=_numeric(name), incremental="linear", accumulator=accumulator,  # type: ignore[arg-type]
        ))  # fmt: skip
    for f in (DOUBLE, REAL):
        made.append(AggregateDef(
            name=name, aliases=_ALIASES.get(name, ()), args=(f,), result=DOUBLE, sql=double,
            incremental="linear", accumulator="moments_double",
        ))  # fmt: skip
    return made


AGGREGATES: tuple[AggregateDef, ...] = tuple(
    d for name in ("var_samp", "var_pop", "stddev_samp", "stddev_pop") for d in _family(name)
)
