"""array_agg and string_agg."""

from __future__ import annotations

from streamsql.core.types import BYTEA, TEXT, SqlType, array_of
from streamsql.functions.definitions import AggregateDef, AggregateSql, Poly


def _array(types: tuple[SqlType, ...]) -> SqlType:
    return array_of(types[0])


def sorted_if_distinct(a: AggregateSql, x: str) -> str:
    """The ORDER BY inside the call; DISTINCT without one sorts, as PostgreSQL does to find
    equals."""
    if a.order:
        return f" {a.order}"
    return f" ORDER BY {x} NULLS LAST" if a.distinct else ""


def _list(a: AggregateSql) -> str:
    x = a.args[0]
    return f"list({a.distinct}{x}{sorted_if_distinct(a, x)}){a.tail}"


def _joined(a: AggregateSql) -> str:
    """Elements that are not NULL, a separator between."""
    x, separator = a.args
    order = sorted_if_distinct(a, x)
    if separator.startswith("'"):
        return f"string_agg({a.distinct}{x}, {separator}{order}){a.tail}"
    # the separator of each element stands before it, but for the first
    pairs = f"list({a.distinct}{{'s': {separator}, 'x': {x}}}{order}){a.tail}"
    kept = f"list_filter({pairs}, lambda p: p.x IS NOT NULL)"
    between = "CASE WHEN i = 1 THEN '' ELSE coalesce(p.s, '') END"
    text = f"list_transform({kept}, lambda p, i: {between} || p.x)"
    return f"CASE WHEN len({kept}) > 0 THEN array_to_string({text}, '') END"


def _joined_bytes(a: AggregateSql) -> str:
    x, separator = a.args
    order = f" {a.order}" if a.order else ""
    hexed = f"string_agg({a.distinct}hex({x}), hex({separator}){order}){a.tail}"
    return f"unhex({hexed})"


AGGREGATES: tuple[AggregateDef, ...] = (
    AggregateDef(name="array_agg", args=(Poly.ANYELEMENT,), result=_array, sql=_list,
                 ignores_nulls=False, order_sensitive=True),
    AggregateDef(name="string_agg", aliases=("listagg",), args=(TEXT, TEXT), result=TEXT,
                 sql=_joined, order_sensitive=True),
    AggregateDef(name="string_agg", args=(BYTEA, BYTEA), result=BYTEA, sql=_joined_bytes,
                 order_sensitive=True),
)  # fmt: skip
