"""Filters that are never TRUE make their branch empty; what that empties in turn goes too."""

from __future__ import annotations

from streamsql.functions.expressions import Literal, conjuncts
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
    if isinstance(node, Join):
        return _join(node)
    if isinstance(node, SetOperation):
        return _set_operation(node)
    return node


def _join(node: Join) -> LogicalPlan:
    left, right = is_empty(node.left), is_empty(node.right)
    if node.kind in ("inner", "cross", "semi", "asof", "lookup", "versioned") and (left or right):
        return nothing(node)
    if (node.kind in ("left", "anti") or node.kind.endswith("_left")) and left:
        return nothing(node)
    if node.kind == "right" and right:
        return nothing(node)
    if node.kind == "full" and left and right:
        return nothing(node)
    return node.left if node.kind == "anti" and right else node


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
