"""Filters that are never TRUE make their branch empty; what that empties in turn goes too."""

from __future__ import annotations

from streamsql.functions.expressions import Literal, column, conjuncts
from streamsql.plan.nodes import (
    Aggregate,
    Distinct,
    DistinctOn,
    Filter,
    Join,
    Limit,
    LogicalPlan,
    Project,
    SetOperation,
    Sort,
    TableFunction,
    TimeWindow,
    Values,
    Window,
)
from streamsql.plan.optimizer.predicates import parts_of
from streamsql.plan.visit import transform_plan

_PASSING = (
    Project, Filter, Window, TimeWindow, Distinct, DistinctOn, Sort, Limit, TableFunction,
)  # fmt: skip


def drop_dead_branches(plan: LogicalPlan) -> LogicalPlan:
    """Replace branches that can give no row by empty VALUES."""
    return transform_plan(plan, _node)


def nothing(plan: LogicalPlan) -> Values:
    """No rows, in the plan's columns."""
    return Values(schema=plan.schema, rows=())


def is_empty(plan: LogicalPlan) -> bool:
    """VALUES without rows."""
    return isinstance(plan, Values) and not plan.rows


def _never(predicate: object) -> bool:
    return isinstance(predicate, Literal) and predicate.value is not True


def _node(node: LogicalPlan) -> LogicalPlan:
    if isinstance(node, Filter) and any(_never(p) for p in conjuncts(node.predicate)):
        return nothing(node)
    if isinstance(node, _PASSING) and is_empty(node.input):
        return nothing(node)
    if isinstance(node, Aggregate) and node.keys and is_empty(node.input):
        return nothing(node) if node.grouping_sets is None else node
    if isinstance(node, Limit) and isinstance(node.limit, Literal) and node.limit.value == 0:
        return nothing(node)
    if isinstance(node, Join):
        return _join(node)
    if isinstance(node, SetOperation):
        return _set_operation(node)
    return node


def _join(node: Join) -> LogicalPlan:
    left, right = is_empty(node.left), is_empty(node.right)
    if not node.null_aware and any(_never(p) for p in parts_of(node.condition)):
        right = right or node.kind in ("inner", "semi", "left", "anti")
        left = left or node.kind == "right"
    if node.kind in ("inner", "cross", "semi", "asof", "lookup", "versioned") and (left or right):
        return nothing(node)
    if (node.kind in ("left", "anti") or node.kind.endswith("_left")) and left:
        return nothing(node)
    if node.kind == "right" and right:
        return nothing(node)
    if node.kind == "full" and left and right:
        return nothing(node)
    if node.kind == "anti" and right:
        return node.left
    if node.kind == "left" and right and not node.lateral:
        return _beside_nulls(node, node.left, 0)
    if node.kind == "right" and left:
        return _beside_nulls(node, node.right, len(node.left.schema))
    return node


def _beside_nulls(node: Join, side: LogicalPlan, first: int) -> Project:
    """An outer join without a match: the side's columns from `first` on, all others NULL."""
    exprs = tuple(
        column(i - first, c.type, c.name)
        if first <= i < first + len(side.schema)
        else Literal(value=None, type=c.type)
        for i, c in enumerate(node.schema)
    )
    return Project(schema=node.schema, input=side, exprs=exprs)


def _set_operation(node: SetOperation) -> LogicalPlan:
    left, right = is_empty(node.left), is_empty(node.right)
    if left and right:
        return nothing(node)
    if node.kind == "intersect" and (left or right):
        return nothing(node)
    if node.kind == "except" and left:
        return nothing(node)
    if node.kind in ("union", "except") and right and node.all:
        return _named_as(node, node.left)
    if node.kind == "union" and left and node.all:
        return _named_as(node, node.right)
    return node


def _named_as(node: SetOperation, branch: LogicalPlan) -> LogicalPlan:
    if branch.schema == node.schema:
        return branch
    from streamsql.plan.binder.outputs import identity

    return Project(schema=node.schema, input=branch, exprs=identity(branch.schema))
