"""Subqueries that compare otherwise than by equality, done once for every value that is asked for.

What `(SELECT count(*) FROM r WHERE r.x < l.v)` answers depends on l.v alone: the distinct values of
l.v (the domain) are joined with r by the condition, grouped, and joined back to l. A change of r
touches the values whose condition holds for it, a new row of l with a known value only itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamsql.core.schema import Column, Schema
from streamsql.core.types import BOOLEAN, Kind
from streamsql.functions.expressions import TRUE, Call, Expr, column, conjunction
from streamsql.functions.resolve import needs_guard
from streamsql.plan.binder.joins import join_schema
from streamsql.plan.nodes import Aggregate, Distinct, Join, LogicalPlan, Project
from streamsql.plan.optimizer.decorrelate import (
    as_join_condition,
    is_correlated,
    lift,
    up_one_level,
)
from streamsql.plan.optimizer.implied import EXACT_KINDS
from streamsql.plan.optimizer.predicates import may_raise
from streamsql.plan.visit import map_aggregate, remap_columns, row_columns, shift_columns, walk_plan

KEY_KINDS = EXACT_KINDS | {Kind.NUMERIC}
"""Types whose equal values are one group and one key of a join."""
NODES_MAX = 64
"""Plans larger than this are not written twice."""


@dataclass(frozen=True)
class Domain:
    """The distinct values of some columns, joined with what is asked of them.

    plan: the domain's columns, then those of the subquery's plan (semi: the domain's alone).
    columns: of the outer row, in the order of the domain's.
    """

    plan: LogicalPlan
    columns: tuple[int, ...]

    def joined_back(self, source: LogicalPlan, right: LogicalPlan) -> Join:
        """The source with the rows of `right`, whose first columns are the domain's, or NULLs."""
        width = len(source.schema)
        parts = []
        for i, c in enumerate(self.columns):
            own, other = source.schema[c], right.schema[i]
            args = (column(c, own.type, own.name), column(width + i, other.type, other.name))
            parts.append(Call(function="is_not_distinct_from", args=args, type=BOOLEAN))
        return Join(
            schema=join_schema(source.schema, right.schema, "left"),
            left=source,
            right=right,
            kind="left",
            condition=conjunction(parts),
        )


def domain_of(source: LogicalPlan, subquery: LogicalPlan, kind: str) -> Domain | None:
    """The values that a correlated plan reads of the source's rows, joined (inner or semi) with the
    plan by what it compares them with; None if that can not be lifted out of it."""
    if not is_correlated(subquery) or sum(1 for _ in walk_plan(source)) > NODES_MAX:
        return None
    lifted = lift(subquery)
    if lifted is None or not lifted.conditions:
        return None
    width = len(source.schema)
    conditions = [as_join_condition(c, width) for c in lifted.conditions]
    if any(may_raise(c) and needs_guard(c) for c in conditions):
        return None
    columns = tuple(sorted({i for c in conditions for i in row_columns(c) if i < width}))
    if not columns or any(source.schema[i].type.kind not in KEY_KINDS for i in columns):
        return None
    schema = source.schema.select(columns)
    refs = tuple(column(i, c.type, c.name) for i, c in zip(columns, schema, strict=True))
    values = Distinct(schema=schema, input=Project(schema=schema, input=source, exprs=refs))
    inner = up_one_level(lifted.plan)
    where = {c: i for i, c in enumerate(columns)}
    where |= {width + i: len(columns) + i for i in range(len(inner.schema))}
    joined = Join(
        schema=join_schema(schema, inner.schema, kind),
        left=values,
        right=inner,
        kind=kind,
        condition=conjunction([remap_columns(c, where) for c in conditions]),
    )
    return Domain(joined, columns)


def aggregated(source: LogicalPlan, plan: Aggregate) -> tuple[Join, int] | None:
    """A correlated aggregate without keys as a left join by its domain: (the join, where its
    results begin). A value without rows has no group, and NULLs there."""
    domain = domain_of(source, plan.input, "inner")
    if domain is None:
        return None
    n = len(domain.columns)
    grouped = Aggregate(
        schema=Schema((*domain.plan.schema.columns[:n], *plan.schema.columns)),
        input=domain.plan,
        keys=tuple(range(n)),
        aggregates=tuple(map_aggregate(a, lambda e: shift_columns(e, n)) for a in plan.aggregates),
    )
    return domain.joined_back(source, grouped), len(source.schema) + n


def found_in(source: LogicalPlan, plan: LogicalPlan) -> tuple[Join, Expr] | None:
    """EXISTS by its domain: (the source left-joined with the values that have a row, the test)."""
    domain = domain_of(source, plan, "semi")
    if domain is None:
        return None
    n = len(domain.columns)
    schema = Schema((*domain.plan.schema.columns, Column("", BOOLEAN, False)))
    refs = tuple(column(i, c.type, c.name) for i, c in enumerate(domain.plan.schema))
    flagged = Project(schema=schema, input=domain.plan, exprs=(*refs, TRUE))
    join = domain.joined_back(source, flagged)
    flag = column(len(source.schema) + n, BOOLEAN)
    return join, Call(function="is_not_null", args=(flag,), type=BOOLEAN)
