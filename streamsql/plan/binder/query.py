"""Queries: WITH, SELECT, VALUES, set operations, and the ORDER BY / LIMIT around them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from streamsql.core.errors import InvariantViolation, SqlSyntaxError
from streamsql.core.schema import Column, Schema
from streamsql.core.types import Kind
from streamsql.functions.coerce import common_type
from streamsql.functions.expressions import Expr
from streamsql.plan.binder.context import Bound
from streamsql.plan.binder.env import Env, leftmost
from streamsql.plan.binder.expressions import ExprBinder
from streamsql.plan.binder.scope import Namespace
from streamsql.plan.nodes import Values


def bind_query_tree(node: exp.Expression, env: Env) -> Bound:
    """Any query. Its columns may still be UNKNOWN."""
    if env.beyond is not None:  # what only LATERAL items of the group around this query see
        env = replace(env, beyond=None)
    while isinstance(node, exp.Subquery) and not _has_own_clauses(node):
        node = node.this
    with_ = node.args.get("with_") or node.args.get("with")
    if with_ is not None:
        from streamsql.plan.binder.ctes import bind_with

        env = bind_with(with_, env)
    for class_, bind in _QUERIES.items():
        if isinstance(node, class_):
            return bind(node, env)
    raise InvariantViolation(f"the grammar makes no query of {node.key}")


def _has_own_clauses(node: exp.Subquery) -> bool:
    return any(node.args.get(k) for k in ("with_", "with", "order", "limit", "offset"))


def _select(node: exp.Select, env: Env) -> Bound:
    from streamsql.plan.binder.select import bind_select

    return bind_select(node, env)


def _set_operation(node: exp.SetOperation, env: Env) -> Bound:
    from streamsql.plan.binder.set_operations import bind_set_operation

    return bind_set_operation(node, env)


def _subquery(node: exp.Subquery, env: Env) -> Bound:
    from streamsql.plan.binder.order import order_outputs

    return order_outputs(bind_query_tree(node.this, env), node, env)


def _values(node: exp.Values, env: Env) -> Bound:
    from streamsql.plan.binder.order import order_outputs

    return order_outputs(bind_values(node, env), node, env)


def values_rows(node: exp.Values, env: Env) -> list[list[Expr]]:
    """The bound rows, each cell on its own. Raises: SqlSyntaxError (42601) for uneven rows."""
    binder = ExprBinder(env.scope(Namespace(0)), env.statement, clause="VALUES")
    rows: list[list[Expr]] = []
    for row in node.expressions:
        cells = row.expressions if isinstance(row, exp.Tuple) else [row]
        if rows and len(cells) != len(rows[0]):
            raise SqlSyntaxError(
                "VALUES lists must all be the same length", position=leftmost(cells[0])
            )
        rows.append(binder.bind_all(cells))
    return rows


def bind_values(node: exp.Values, env: Env) -> Bound:
    """VALUES: columns named column1, column2, … of the common type of their cells."""
    rows = values_rows(node, env)
    binder = ExprBinder(env.scope(Namespace(0)), env.statement, clause="VALUES")
    types = []
    for i in range(len(rows[0])):
        cells = [row[i].type for row in rows]
        if all(t.kind is Kind.UNKNOWN for t in cells):
            types.append(cells[0])
        else:
            types.append(common_type(cells, what="VALUES"))
    typed = tuple(
        tuple(
            e if t.kind is Kind.UNKNOWN else binder.coerce(e, t)
            for e, t in zip(row, types, strict=True)
        )
        for row in rows
    )
    columns = tuple(Column(f"column{i}", t) for i, t in enumerate(types, 1))
    plan = Values(schema=Schema(columns), rows=typed)
    return Bound(plan, (None,) * len(columns))


def _table(node: exp.Table, env: Env) -> Bound:
    """TABLE t."""
    table = exp.From(this=node.copy())
    return bind_query_tree(exp.Select(expressions=[exp.Star()], from_=table), env)


_QUERIES: dict[type[exp.Expression], Callable[..., Bound]] = {
    exp.Select: _select,
    exp.SetOperation: _set_operation,
    exp.Subquery: _subquery,
    exp.Values: _values,
    exp.Table: _table,
}
