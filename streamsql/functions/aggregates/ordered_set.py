"""percentile_cont, percentile_disc and mode: f(…) WITHIN GROUP (ORDER BY x); median(x)."""

from __future__ import annotations

from streamsql.core.types import DOUBLE, INTERVAL, SqlType, array_of
from streamsql.functions.definitions import AggregateDef, AggregateSql, Poly

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
    if a.descending:
        many = a.types[0] == FRACTIONS
        turned = f"list_transform({fraction}, lambda f: 1 - f)" if many else f"1 - {fraction}"
        fraction = turned
    return f"quantile_cont({x}, {fraction}){a.tail}"


def _disc(a: AggregateSql) -> str:
    fraction, x = a.args
    if fraction == NO_FRACTION:
        return f"any_value(CAST(NULL AS {a.result.duckdb})){a.tail}"
    if not a.descending:
        return f"quantile_disc({x}, {fraction}){a.tail}"
    values = f"list_filter(list({x} ORDER BY {x} DESC){a.tail}, lambda v: v IS NOT NULL)"
    place = "greatest(CAST(ceil({f} * len({v})) AS BIGINT), 1)"
    if a.types[0] == FRACTIONS:
        inner = f"list_extract({values}, {place.format(f='f', v=values)})"
        return f"list_transform({fraction}, lambda f: {inner})"
    return f"list_extract({values}, {place.format(f=fraction, v=values)})"


def _mode(a: AggregateSql) -> str:
    x = a.args[0]
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
        AggregateDef(name="mode", args=(Poly.ANYELEMENT,), result=_sorted, sql=_mode,
                     ordered_set=True),
    ]  # fmt: skip
    return made


AGGREGATES: tuple[AggregateDef, ...] = tuple(_defs())
