"""first_value, last_value, any_value, and the value beside an extreme (arg_min, arg_max)."""

from __future__ import annotations

from streamsql.core.types import SqlType
from streamsql.functions.definitions import AggregateDef, Poly


def _same(types: tuple[SqlType, ...]) -> SqlType:
    return types[0]


AGGREGATES: tuple[AggregateDef, ...] = (
    AggregateDef(name="first_value", args=(Poly.ANYELEMENT,), result=_same, sql="first",
                 ignores_nulls=False, order_sensitive=True, aliases=("first",)),
    AggregateDef(name="last_value", args=(Poly.ANYELEMENT,), result=_same, sql="last",
                 ignores_nulls=False, order_sensitive=True, aliases=("last",)),
    AggregateDef(name="any_value", args=(Poly.ANYELEMENT,), result=_same, sql="any_value",
                 order_sensitive=True),
    AggregateDef(name="arg_min", aliases=("min_by",), args=(Poly.ANY, Poly.ANY), result=_same,
                 sql="arg_min"),
    AggregateDef(name="arg_max", aliases=("max_by",), args=(Poly.ANY, Poly.ANY), result=_same,
                 sql="arg_max"),
)  # fmt: skip
