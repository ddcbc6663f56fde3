"""JSONB compares by value: both sides of a comparison become texts or bytes that compare as the
documents do, before other rules make keys of joins and groups of them.

`a.j = b.j` is `jsonb_equal_key(a.j) = jsonb_equal_key(b.j)`, `a.j < b.j` the same of
`jsonb_sort_key`, also where documents are inside of arrays, structs and maps. A comparison with a
constant stays: both evaluators know it, and indexes look it up.
"""

from __future__ import annotations

from dataclasses import replace

from streamsql.core.schema import Column, Schema
from streamsql.core.types import BYTEA, JSONB, TEXT, Kind
from streamsql.functions.expressions import (
    Call,
    ColumnRef,
    Expr,
    Literal,
    OuterRef,
    Subquery,
    transform,
    walk,
)
from streamsql.plan.nodes import LogicalPlan, Project
from streamsql.plan.visit import map_node, node_expressions, transform_plan

EQUALITIES = frozenset({"eq", "ne", "is_distinct_from", "is_not_distinct_from"})
ORDERINGS = frozenset({"lt", "le", "gt", "ge"})


def compare_jsonb_operands(plan: LogicalPlan) -> LogicalPlan:
    """Every comparison of JSONB between rows over keys (subqueries' plans are the driver's)."""
    return transform_plan(plan, _node)


def _node(node: LogicalPlan) -> LogicalPlan:
    own = [e for e in node_expressions(node) if e.children()]  # not the literals of an INSERT
    if not own:
        return node
    changed = {id(e): transform(e, _expression) for e in own}
    if all(changed[id(e)] is e for e in own):
        return node
    return map_node(node, lambda e: changed.get(id(e), e))


def _expression(expr: Expr) -> Expr:
    if isinstance(expr, Subquery):
        return _membership(expr)
    if not isinstance(expr, Call) or expr.function not in EQUALITIES | ORDERINGS:
        return expr
    if not all(a.type.holds(Kind.JSONB) and _reads_rows(a) for a in expr.args):
        return expr
    return replace(expr, args=tuple(comparable(a, expr.function) for a in expr.args))


def _reads_rows(expr: Expr) -> bool:
    return any(isinstance(e, ColumnRef | OuterRef | Subquery) for e in walk(expr))


def comparable(expr: Expr, function: str) -> Expr:
    """A key of the value, for a comparison by this function."""
    name, leaf = ("jsonb_equal_key", TEXT)
    if function in ORDERINGS:
        name, leaf = ("jsonb_sort_key", BYTEA)
    type_ = expr.type.with_leaf(JSONB, leaf)
    if isinstance(expr, Literal) and expr.value is None:
        return Literal(value=None, type=type_, position=expr.position)
    return Call(function=name, args=(expr,), type=type_, position=expr.position)


def _membership(node: Subquery) -> Subquery:
    """IN, ANY and ALL over keys of the operands and of the subquery's columns."""
    found = [i for i, o in enumerate(node.operands) if o.type.holds(Kind.JSONB)]
    if not found:
        return node
    operands, columns = list(node.operands), list(node.plan.schema.columns)
    exprs: list[Expr] = [
        ColumnRef(index=i, type=c.type, name=c.name) for i, c in enumerate(columns)
    ]
    for i in found:
        operands[i] = comparable(operands[i], node.operator)
        exprs[i] = comparable(exprs[i], node.operator)
        columns[i] = Column(columns[i].name, exprs[i].type, columns[i].nullable)
    plan = Project(schema=Schema(tuple(columns)), input=node.plan, exprs=tuple(exprs))
    return replace(node, plan=plan, operands=tuple(operands))
