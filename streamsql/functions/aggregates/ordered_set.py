"""percentile_cont, percentile_disc and mode: f(…) WITHIN GROUP (ORDER BY x); median(x)."""

from __future__ import annotations

from streamsql.core.types import DOUBLE, INTERVAL, Kind, SqlType, array_of
from streamsql.functions.definitions import AggregateDef, AggregateSql, Poly
from streamsql.functions.duckdb_udfs import kernel_sql
from streamsql.functions.scalar.lazy import lazy

FRACTIONS = array_of(DOUBLE)
NO_FRACTION = f"CAST(NULL AS {DOUBLE.duckdb})"


def _sorted(types: tuple[SqlType, ...]) -> SqlType:
    return types[-1]


def _sorted_array(types: tuple[SqlType, ...]) -> SqlType:
    return array_of(types[-1])


def _cont(a: AggregateSql) -> str:
    fraction, x = a.args
    if fraction == NO_FRACTION:
        return f"any_value(CAST(NULL AS {a.result.duckdb})){a.tail}"
    many = a.types[0] == FRACTIONS
    if a.types[-1].kind is Kind.INTERVAL:
        types = (array_of(INTERVAL), a.types[0])
        parts = [f"list({x} {_total(x, a)}){a.tail}", fraction]
        return kernel_sql(
            "percentile", lazy("interval_lists", "percentile"), parts, types, a.result, strict=False
        )
    if a.descending:
        turned = f"list_transform({fraction}, lambda f: 1 - f)" if many else f"1 - {fraction}"
        fraction = turned
    return _each("quantile_cont", x, fraction, a)


def _total(x: str, a: AggregateSql) -> str:
    """The order of intervals, equal ones by their text."""
    direction = "DESC" if a.descending else "ASC"
    return f"ORDER BY {x} {direction}, CAST({x} AS VARCHAR)"


def _each(function: str, x: str, fraction: str, a: AggregateSql) -> str:
    """DuckDB's function; of several fractions those that are NULL give NULL, which it refuses."""
    if a.types[0] != FRACTIONS or "NULL" not in fraction:
        return f"{function}({x}, {fraction}){a.tail}"
    filled = f"list_transform({fraction}, lambda f: coalesce(f, 0))"
    pairs = f"list_zip({function}({x}, {filled}){a.tail}, {fraction})"
    return f"list_transform({pairs}, lambda p: CASE WHEN p[2] IS NOT NULL THEN p[1] END)"


def _median(a: AggregateSql) -> str:
    """The middle of intervals."""
    parts = [f"list({a.distinct}{a.args[0]} {_total(a.args[0], a)}){a.tail}", "0.5::DOUBLE"]
    types = (array_of(INTERVAL), DOUBLE)
    return kernel_sql("percentile", lazy("interval_lists", "percentile"), parts, types, a.result)


def _disc(a: AggregateSql) -> str:
    fraction, x = a.args
    if fraction == NO_FRACTION:
        return f"any_value(CAST(NULL AS {a.result.duckdb})){a.tail}"
    interval = a.types[-1].kind is Kind.INTERVAL
    if not a.descending and not interval:
        return _each("quantile_disc", x, fraction, a)
    order = _total(x, a) if interval else f"ORDER BY {x} DESC"
    values = f"list_filter(list({x} {order}){a.tail}, lambda v: v IS NOT NULL)"
    place = "greatest(CAST(ceil({f} * len({v})) AS BIGINT), 1)"
    if a.types[0] == FRACTIONS:
        inner = f"list_extract({values}, {place.format(f='f', v=values)})"
        return f"list_transform({fraction}, lambda f: CASE WHEN f IS NOT NULL THEN {inner} END)"
    return f"list_extract({values}, {place.format(f=fraction, v=values)})"


def _mode(a: AggregateSql) -> str:
    x = a.args[0]
    if x.startswith("'"):  # DuckDB takes the mode of a constant for a number
        return f"any_value({x}){a.tail}"
    if a.types[-1].kind is Kind.INTERVAL:
        return f"mode({x} {_total(x, a)}){a.tail}"
    return f"mode({x} ORDER BY {x} {'DESC' if a.descending else 'ASC'}){a.tail}"


def _defs() -> list[AggregateDef]:
    made: list[AggregateDef] = []
    for t in (DOUBLE, INTERVAL):
        made += [
            AggregateDef(name="percentile_cont", args=(DOUBLE, t), result=t, sql=_cont,
                         ordered_set=True),
            AggregateDef(name="percentile_cont", args=(FRACTIONS, t), result=array_of(t), sql=_cont,
                         ordered_set=True),
        ]  # fmt: skip
    made += [
        AggregateDef(name="percentile_disc", args=(DOUBLE, Poly.ANYELEMENT), result=_sorted,
                     sql=_disc, ordered_set=True),
        AggregateDef(name="percentile_disc", args=(FRACTIONS, Poly.ANYELEMENT),
                     result=_sorted_array, sql=_disc, ordered_set=True),
        AggregateDef(name="median", args=(DOUBLE,), result=DOUBLE, sql="median"),
        AggregateDef(name="median", args=(INTERVAL,), result=INTERVAL, sql=_median),
        AggregateDef(name="mode", args=(Poly.ANYELEMENT,), result=_sorted, sql=_mode,
                     ordered_set=True),
    ]  # fmt: skip
    return made


AGGREGATES: tuple[AggregateDef, ...] = tuple(_defs())
