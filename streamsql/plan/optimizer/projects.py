"""Projections that stand on one another become one; those that change nothing go."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from streamsql.functions.expressions import ColumnRef, Expr, Literal, conjunction, conjuncts, walk
from streamsql.plan.nodes import CteRef, Filter, LogicalPlan, Project, Scan
from streamsql.plan.optimizer.predicates import is_volatile
from streamsql.plan.visit import replace_columns, row_columns, transform_plan


def merge_projects(plan: LogicalPlan) -> LogicalPlan:
    """Merge neighbouring Projects and neighbouring Filters, drop identities below the root."""
    merged = transform_plan(plan, _node)
    inputs = tuple(_without_identity(i) for i in merged.inputs())
    return merged.with_inputs(inputs) if inputs else merged


def _node(node: LogicalPlan) -> LogicalPlan:
    inputs = node.inputs()
    if inputs:
        bare = tuple(_without_identity(i) for i in inputs)
        if any(a is not b for a, b in zip(inputs, bare, strict=True)):
            node = node.with_inputs(bare)
    if isinstance(node, Project) and isinstance(node.input, Project):
        return _merge(node, node.input)
    if isinstance(node, Filter) and isinstance(node.input, Filter):
        inner = node.input
        both = conjunction([*conjuncts(inner.predicate), *conjuncts(node.predicate)])
        return Filter(schema=node.schema, input=inner.input, predicate=both)
    return node


def _without_identity(node: LogicalPlan) -> LogicalPlan:
    while isinstance(node, Project) and is_identity(node):
        below = node.input
        if below.schema.names != node.schema.names and not isinstance(below, Scan | CteRef):
            below = replace(below, schema=node.schema)  # names are for people: EXPLAIN, errors
        node = below
    return node


def is_identity(node: Project) -> bool:
    """Does the Project pass every column on in its place?"""
    return len(node.exprs) == len(node.input.schema) and all(
        isinstance(e, ColumnRef) and e.index == i for i, e in enumerate(node.exprs)
    )


def _merge(outer: Project, inner: Project) -> Project:
    """Substitute inner's expressions, unless that would compute one twice."""
    uses: Counter[int] = Counter()
    for e in outer.exprs:
        for part in walk(e):
            if isinstance(part, ColumnRef):
                uses[part.index] += 1
        for i in row_columns(e):
            uses[i] = max(uses[i], 1)
    for i, e in enumerate(inner.exprs):
        if is_volatile(e) or (uses[i] > 1 and not _is_cheap(e)):
            return outer
    exprs = tuple(replace_columns(e, lambda r: inner.exprs[r.index]) for e in outer.exprs)
    return replace(outer, input=inner.input, exprs=exprs)


def _is_cheap(expr: Expr) -> bool:
    return isinstance(expr, ColumnRef | Literal)
