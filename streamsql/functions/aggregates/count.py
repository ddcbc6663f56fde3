"""count(*), count(x), approx_count_distinct."""

from __future__ import annotations

from streamsql.core.types import BIGINT
from streamsql.functions.definitions import AggregateDef, AggregateSql, Poly


def _star(a: AggregateSql) -> str:
    return f"count(*){a.tail}"


def _distinct(a: AggregateSql) -> str:
    """Exact, in a view as in a plain query: what rows leave behind can not be approximated."""
    return f"count(DISTINCT {a.args[0]}){a.tail}"


AGGREGATES: tuple[AggregateDef, ...] = (
    AggregateDef(name="count_star", args=(), result=BIGINT, sql=_star, incremental="linear",
                 accumulator="count", empty="0", ignores_nulls=False),
    AggregateDef(name="count", args=(Poly.ANY,), result=BIGINT, sql="count",
                 incremental="linear", accumulator="count", empty="0"),
    AggregateDef(name="approx_count_distinct", args=(Poly.ANY,), result=BIGINT, sql=_distinct,
                 empty="0"),
)  # fmt: skip
