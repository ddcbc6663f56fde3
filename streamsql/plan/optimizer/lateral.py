"""LATERAL subqueries → joins, where what they ask of the row beside them can be a condition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from streamsql.core.schema import Schema
from streamsql.functions.expressions import TRUE, Call, Expr, column, conjuncts
from streamsql.functions.resolve import needs_guard
from streamsql.plan.binder.joins import join_schema
from streamsql.plan.nodes import Aggregate, Filter, Join, LogicalPlan, Project, SetOperation, Values
from streamsql.plan.optimizer.decorrelate import (
    as_join_condition,
    is_correlated,
    keyed,
    lift,
    refers_outside,
    up_one_level,
)
from streamsql.plan.optimizer.domains import aggregated
from streamsql.plan.optimizer.nearest import nearest
from streamsql.plan.optimizer.predicates import condition_of, may_raise
from streamsql.plan.optimizer.scalar_subqueries import empty_value, global_aggregate
from streamsql.plan.visit import replace_columns, transform_plan


def unnest_laterals(plan: LogicalPlan) -> LogicalPlan:
    """Turn lateral joins into plain ones."""
    return transform_plan(plan, _node)


def _node(node: LogicalPlan) -> LogicalPlan:
    if not isinstance(node, Join) or not node.lateral:
        return node
    if node.kind not in ("inner", "cross", "left"):
        return node
    return (
        _as_join(node)
        or _as_expressions(node)
        or _as_aggregate(node)
        or _as_nearest(node)
        or _as_union(node)
        or node
    )


def _as_nearest(node: Join) -> LogicalPlan | None:
    """The nearest row by some column: an ASOF join."""
    if node.kind == "left" and node.condition not in (None, TRUE):
        return None
    width = len(node.left.schema)
    found = nearest(node.right, width)
    if found is None:
        return None
    kind = "asof_left" if node.kind == "left" else "asof"
    filled = "left" if node.kind == "left" else "inner"
    join = Join(
        schema=join_schema(node.left.schema, found.right.schema, filled),
        left=node.left, right=found.right, kind=kind, condition=found.condition,
    )  # fmt: skip
    return _over(node, join, found.values)


def _as_union(node: Join) -> LogicalPlan | None:
    """Rows of several sources are beside a row if those of each are."""
    branches: list[LogicalPlan] = []
    if isinstance(node.right, Values) and 1 < len(node.right.rows) <= BRANCHES_MAX:
        if node.kind == "left" and node.condition not in (None, TRUE):
            return None
        one = Values(schema=Schema(()), rows=((),))
        branches = [Project(schema=node.right.schema, input=one, exprs=r) for r in node.right.rows]
    elif isinstance(node.right, SetOperation) and node.right.kind == "union" and node.right.all:
        if node.kind == "left":
            return None
        branches = [node.right.left, node.right.right]
    whole: LogicalPlan | None = None
    for branch in branches:
        part = replace(node, right=branch, lateral=is_correlated(branch))
        if part.lateral:
            joined = _node(part)
            if joined is part:
                return None
        else:
            joined = _joined(node, up_one_level(branch), conjuncts(node.condition or TRUE))
        whole = joined if whole is None else SetOperation(
            schema=node.schema, left=whole, right=joined, kind="union", all=True
        )  # fmt: skip
    return whole


BRANCHES_MAX = 16
"""Branches that are written out; the left side stands in each."""


def _as_join(node: Join) -> LogicalPlan | None:
    """A subquery whose correlated conditions can all be lifted out of it."""
    lifted = lift(node.right)
    if lifted is None:
        return None
    width = len(node.left.schema)
    conditions = [as_join_condition(c, width) for c in lifted.conditions]
    if any(may_raise(c) and needs_guard(c) for c in conditions):
        return None
    if node.condition is not None:
        conditions += conjuncts(node.condition)
    return _joined(node, up_one_level(lifted.plan), conditions)


def _joined(node: Join, right: LogicalPlan, conditions: list[Expr]) -> LogicalPlan:
    """left JOIN right ON conditions, without right's further columns."""
    condition = condition_of(conditions)
    kind = node.kind
    if kind != "left":
        kind = "cross" if condition is None else "inner"
    elif condition is None:
        condition = TRUE
    n, extra = len(node.schema), right.schema.columns[len(node.right.schema) :]
    schema = Schema(node.schema.columns + extra)
    join = Join(schema=schema, left=node.left, right=right, kind=kind, condition=condition)
    return join if not extra else _first(join, node.schema, n)


def _first(plan: LogicalPlan, schema: Schema, n: int) -> Project:
    exprs = tuple(column(i, c.type, c.name) for i, c in enumerate(schema))
    return Project(schema=schema, input=plan, exprs=exprs[:n])


def _as_expressions(node: Join) -> LogicalPlan | None:
    """(SELECT expressions of both rows FROM …): computed over the joined rows."""
    right = node.right
    if not isinstance(right, Project):
        return None
    single = isinstance(right.input, Values) and len(right.input.rows) == 1
    if node.kind == "left" and not (single and node.condition in (None, TRUE)):
        return None  # where nothing matches the expressions are not computed, but NULL
    width = len(node.left.schema)
    source: LogicalPlan
    if single and not right.input.schema:
        source = node.left
    else:
        below = Join(
            schema=Schema(node.left.schema.columns + right.input.schema.columns),
            left=node.left, right=right.input, kind="cross",
            lateral=is_correlated(right.input),
        )  # fmt: skip
        if below.lateral:
            joined = _node(below)
            if joined is below:
                return None
            source = joined
        else:
            source = _joined(below, up_one_level(right.input), [])
    results = tuple(as_join_condition(e, width) for e in right.exprs)
    left = tuple(column(i, c.type, c.name) for i, c in enumerate(node.left.schema))
    project = Project(schema=node.schema, input=source, exprs=(*left, *results))
    if node.condition in (None, TRUE):
        return project
    assert node.condition is not None
    return Filter(schema=node.schema, input=project, predicate=node.condition)


def _as_aggregate(node: Join) -> LogicalPlan | None:
    """(SELECT f(count(*), max(x)) FROM … WHERE inner = outer): grouped by inner sides; a missing
    group is an aggregate over no rows."""
    if node.kind == "left" and node.condition not in (None, TRUE):
        return None
    whole = global_aggregate(node.right)
    if whole is None:
        return None
    project, plan = whole
    if project is not None and any(refers_outside(e) for e in project.exprs):
        return None
    found = keyed(plan.input)
    if found is None:
        by_domain = aggregated(node.left, plan)
        if by_domain is None or any(empty_value(call) is None for call in plan.aggregates):
            return None
        return _over(node, by_domain[0], _results(project, plan, by_domain[1]))
    keys = tuple(dict.fromkeys(found.keys))
    columns = found.plan.schema.select(keys).columns + plan.schema.columns
    grouped = Aggregate(
        schema=Schema(columns), input=found.plan, keys=keys, aggregates=plan.aggregates
    )
    width = len(node.left.schema)
    if any(empty_value(call) is None for call in plan.aggregates):
        return None
    results = _results(project, plan, width + len(keys))
    lifted = found.lifted(grouped, [keys.index(k) for k in found.keys])
    conditions = [as_join_condition(c, width) for c in lifted.conditions]
    right = up_one_level(grouped)
    schema = Schema(node.left.schema.columns + right.schema.columns)
    join = Join(
        schema=schema, left=node.left, right=right, kind="left", condition=condition_of(conditions)
    )
    return _over(node, join, results)


def _results(project: Project | None, plan: Aggregate, first: int) -> list[Expr]:
    """The subquery's columns, where the aggregates are columns from `first` on, or NULL in a row
    without a group."""
    results: list[Expr] = []
    for i, call in enumerate(plan.aggregates):
        empty = empty_value(call)
        ref: Expr = column(first + i, call.type)
        if empty is not None and empty.value is not None:
            ref = Call(function="coalesce", args=(ref, empty), type=call.type)
        results.append(ref)
    if project is None:
        return results
    return [replace_columns(e, lambda r: results[r.index]) for e in project.exprs]


def _over(node: Join, join: Join, values: Sequence[Expr]) -> LogicalPlan:
    """The left columns of the join and these values, where the node's condition holds."""
    left = tuple(column(i, c.type, c.name) for i, c in enumerate(node.left.schema))
    out = Project(schema=node.schema, input=join, exprs=(*left, *values))
    if node.condition in (None, TRUE):
        return out
    assert node.condition is not None
    return Filter(schema=node.schema, input=out, predicate=node.condition)
