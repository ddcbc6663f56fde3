"""LIMIT, OFFSET and WITH TIES in SQL."""

from __future__ import annotations

from streamsql.core.errors import InvalidRowCountInLimit, InvalidRowCountInOffset
from streamsql.functions.expressions import Expr, Literal
from streamsql.plan.nodes import Limit
from streamsql.plan.sql.lowering import Env, Lowering

_ERRORS = {
    "LIMIT": (InvalidRowCountInLimit, "2201W"),
    "OFFSET": (InvalidRowCountInOffset, "2201X"),
}


def _no_row(index: int) -> str:
    raise AssertionError("LIMIT reads no column")


def count_sql(low: Lowering, expr: Expr, clause: str, env: Env) -> str | None:
    """SQL of a row count; None when it is NULL (no limit). Raises: 2201W / 2201X if negative."""
    error, sqlstate = _ERRORS[clause]
    if isinstance(expr, Literal):
        if expr.value is None:
            return None
        if expr.value < 0:
            raise error(f"{clause} must not be negative", position=expr.position)
        return str(expr.value)
    sql = low.expr(expr, _no_row, env)
    message = f"streamsql:{sqlstate}:{clause} must not be negative"
    return f"(SELECT CASE WHEN n < 0 THEN error('{message}') ELSE n END FROM (SELECT {sql} AS n))"


def bounds_sql(low: Lowering, node: Limit, env: Env) -> str:
    """` LIMIT n OFFSET m`."""
    sql = ""
    if node.limit is not None:
        count = count_sql(low, node.limit, "LIMIT", env)
        sql += "" if count is None else f" LIMIT {count}"
    if node.offset is not None:
        count = count_sql(low, node.offset, "OFFSET", env)
        sql += "" if count is None else f" OFFSET {count}"
    return sql


def ties_sql(low: Lowering, node: Limit, env: Env) -> str:
    """FETCH FIRST n ROWS WITH TIES: rows whose rank is within the first n after the offset."""
    source = low.item(node.input, env)
    order = low.order(node.order_by, source.row, env)
    limit = None if node.limit is None else count_sql(low, node.limit, "LIMIT", env)
    offset = None if node.offset is None else count_sql(low, node.offset, "OFFSET", env)
    sql = f"SELECT {low.columns(node, source.row)} FROM {source.sql}"
    kept = []
    if offset is not None:
        total = low.order(node.order_by + node.ties, source.row, env)
        kept.append(f"row_number() OVER (ORDER BY {total}) > {offset}")
    if limit is not None:
        kept.append(f"rank() OVER (ORDER BY {order}) <= {limit} + {offset or 0}")
    if kept:
        sql += f" QUALIFY {' AND '.join(kept)}"
    return f"{sql} ORDER BY {order}"
