"""UNION, EXCEPT, INTERSECT."""

from __future__ import annotations

from sqlglot import exp

from streamsql.core.errors import SqlSyntaxError
from streamsql.core.schema import Column, Schema
from streamsql.core.types import Kind, SqlType
from streamsql.functions.coerce import common_type
from streamsql.plan.binder.context import Bound
from streamsql.plan.binder.env import Env, leftmost
from streamsql.plan.binder.order import order_outputs
from streamsql.plan.binder.outputs import typed_outputs
from streamsql.plan.nodes import LogicalPlan, SetOperation

_KINDS: dict[type[exp.Expression], str] = {
    exp.Union: "union",
    exp.Except: "except",
    exp.Intersect: "intersect",
}


def bind_set_operation(node: exp.SetOperation, env: Env) -> Bound:
    """A tree of set operations; long UNION chains are walked without recursion."""
    chain: list[exp.SetOperation] = [node]
    while True:
        left = chain[-1].this
        if isinstance(left, exp.SetOperation) and not _has_clauses(left):
            chain.append(left)
        else:
            break
    from streamsql.plan.binder.query import bind_query_tree

    bound = bind_query_tree(chain[-1].this, env)
    for operation in reversed(chain):
        right = bind_query_tree(operation.expression, env)
        bound = combine(
            bound.plan,
            right.plan,
            _KINDS[type(operation)],
            all_=not operation.args.get("distinct"),
            right_node=operation.expression,
        )
    return order_outputs(bound, node, env)


def _has_clauses(node: exp.Expression) -> bool:
    return any(node.args.get(k) for k in ("with_", "with", "order", "limit", "offset"))


def combine(
    left: LogicalPlan, right: LogicalPlan, kind: str, *, all_: bool, right_node: exp.Expression
) -> Bound:
    """left <kind> [ALL] right, both brought to common types; names are left's."""
    word = kind.upper()
    if len(left.schema) != len(right.schema):
        raise SqlSyntaxError(
            f"each {word} query must have the same number of columns",
            position=_item_position(right_node, 0),
            hint=f"The left query has {len(left.schema)}, the right one {len(right.schema)}.",
        )
    types = [
        _common(a, b, word, _item_position(right_node, i))
        for i, (a, b) in enumerate(zip(left.schema.types, right.schema.types, strict=True))
    ]
    left, right = typed_outputs(left, types), typed_outputs(right, types)
    columns = tuple(
        Column(a.name, t, a.nullable or b.nullable)
        for a, b, t in zip(left.schema, right.schema, types, strict=True)
    )
    plan = SetOperation(schema=Schema(columns), left=left, right=right, kind=kind, all=all_)
    return Bound(plan, (None,) * len(columns))


def _item_position(node: exp.Expression, index: int) -> int | None:
    """Where output column `index` of a query is written, as far as that is plain to see."""
    while isinstance(node, exp.Subquery | exp.SetOperation):
        node = node.this
    items = node.expressions
    if isinstance(node, exp.Values) and items:
        items = items[0].expressions
    if index < len(items) and not any(i.is_star for i in items[: index + 1]):
        return leftmost(items[index])
    return leftmost(items[0]) if items else None


def _common(a: SqlType, b: SqlType, word: str, position: int | None) -> SqlType:
    if a.kind is b.kind is Kind.UNKNOWN:
        return common_type([a, b], what=word)
    return common_type([a, b], word, position)
