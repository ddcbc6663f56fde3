"""Inner joins of many inputs in an order in which each is connected to those before it.

The order of FROM is kept wherever it needs no cross product; otherwise the next input in FROM order
that an equality connects goes first. The result is left-deep, with each condition at the first join
that has all its columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from streamsql.core.schema import Schema
from streamsql.functions.expressions import Call, Expr, column, conjuncts
from streamsql.plan.binder.joins import join_schema
from streamsql.plan.nodes import Filter, Join, LogicalPlan, Project
from streamsql.plan.optimizer.predicates import (
    can_move,
    condition_of,
    holds_subquery,
    is_volatile,
    parts_of,
)
from streamsql.plan.visit import remap_columns, row_columns, shift_columns, transform_plan


@dataclass(frozen=True)
class Leaf:
    """An input of a tree of inner joins. first: its first column in the tree's row."""

    plan: LogicalPlan
    first: int

    @property
    def columns(self) -> range:
        """Its columns in the tree's row."""
        return range(self.first, self.first + len(self.plan.schema))


def order_joins(plan: LogicalPlan) -> LogicalPlan:
    """Rebuild every maximal tree of inner and cross joins."""
    return transform_plan(_ordered(plan), _absorb)


def _absorb(plan: LogicalPlan) -> LogicalPlan:
    """What is left of WHERE directly above an inner join is its last condition: there it is tested
    for the same pairs of rows, and an interval join can see its bounds."""
    if not (isinstance(plan, Filter) and isinstance(plan.input, Join)):
        return plan
    join, parts = plan.input, conjuncts(plan.predicate)
    if join.kind not in ("inner", "cross") or join.lateral:
        return plan
    if any(is_volatile(p) or holds_subquery(p) or not row_columns(p) for p in parts):
        return plan
    condition = condition_of([*parts_of(join.condition), *parts])
    return replace(join, kind="inner", condition=condition)


def _ordered(plan: LogicalPlan) -> LogicalPlan:
    if _is_inner(plan):
        leaves: list[Leaf] = []
        conditions: list[Expr] = []
        _flatten(plan, 0, leaves, conditions)
        leaves = [Leaf(_ordered(leaf.plan), leaf.first) for leaf in leaves]
        return _build(plan, leaves, conditions)
    inputs = plan.inputs()
    if not inputs:
        return plan
    return plan.with_inputs(tuple(_ordered(i) for i in inputs))


def _is_inner(plan: LogicalPlan) -> bool:
    return (
        isinstance(plan, Join)
        and plan.kind in ("inner", "cross")
        and not plan.lateral
        and all(can_move(p) for p in parts_of(plan.condition))
    )


def _flatten(plan: LogicalPlan, first: int, leaves: list[Leaf], conditions: list[Expr]) -> None:
    if not _is_inner(plan):
        leaves.append(Leaf(plan, first))
        return
    assert isinstance(plan, Join)
    _flatten(plan.left, first, leaves, conditions)
    _flatten(plan.right, first + len(plan.left.schema), leaves, conditions)
    conditions += [shift_columns(p, first) for p in parts_of(plan.condition)]


def _build(plan: LogicalPlan, leaves: list[Leaf], conditions: list[Expr]) -> LogicalPlan:
    order = _order(leaves, conditions)
    where: dict[int, int] = {}
    for i in leaves[order[0]].columns:
        where[i] = len(where)
    current = leaves[order[0]].plan
    waiting = list(conditions)
    for n in order[1:]:
        leaf = leaves[n]
        for i in leaf.columns:
            where[i] = len(where)
        ready = [c for c in waiting if row_columns(c) <= where.keys()]
        waiting = [c for c in waiting if c not in ready]
        condition = condition_of([remap_columns(c, where) for c in ready])
        kind = "cross" if condition is None else "inner"
        current = Join(
            schema=join_schema(current.schema, leaf.plan.schema, kind),
            left=current,
            right=leaf.plan,
            kind=kind,
            condition=condition,
        )
    if order == sorted(order):
        return current
    exprs = tuple(column(where[i], c.type, c.name) for i, c in enumerate(plan.schema))
    return Project(schema=Schema(plan.schema.columns), input=current, exprs=exprs)


def _order(leaves: list[Leaf], conditions: list[Expr]) -> list[int]:
    """The leaves' numbers in the order they are joined."""
    owner = {i: n for n, leaf in enumerate(leaves) for i in leaf.columns}
    links: list[set[int]] = []
    for c in conditions:
        if isinstance(c, Call) and c.function in ("eq", "is_not_distinct_from"):
            links.append({owner[i] for i in row_columns(c)})
    order, left = [0], list(range(1, len(leaves)))
    while left:
        joined = set(order)
        connected = [
            n for n in left if any(n in k and k <= joined | {n} and len(k) > 1 for k in links)
        ]
        order.append(connected[0] if connected else left[0])
        left.remove(order[-1])
    return order
