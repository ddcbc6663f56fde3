"""Scalar subqueries → joins, where at most one row can match.

Three shapes: an uncorrelated one-row plan is crossed in; a correlated aggregate is grouped by the
columns that the correlation compares; a correlated look-up by a unique key is left-joined. All
others stay expressions: DuckDB raises 21000 for a second row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from streamsql.core.schema import Column, Schema
from streamsql.core.types import BOOLEAN, Kind
from streamsql.functions import registry
from streamsql.functions.expressions import (
    TRUE,
    AggregateCall,
    Call,
    ColumnRef,
    Expr,
    Literal,
    Subquery,
    column,
    transform,
    walk,
)
from streamsql.functions.resolve import is_ordered_set
from streamsql.plan.names import call_name
from streamsql.plan.nodes import Aggregate, Filter, Join, LogicalPlan, Project, Values
from streamsql.plan.optimizer.decorrelate import (
    as_join_condition,
    equality_sides,
    is_correlated,
    lift,
    up_one_level,
)
from streamsql.plan.optimizer.domains import aggregated
from streamsql.plan.optimizer.nearest import nearest
from streamsql.plan.optimizer.predicates import condition_of, holds_subquery, may_raise
from streamsql.plan.properties import unique_keys
from streamsql.plan.visit import (
    map_node,
    node_expressions,
    replace_columns,
    transform_plan,
)


@dataclass(frozen=True)
class Joinable:
    """right: what to join. condition: over [left, right]; None = cross join. value: the subquery's
    value over [left, right]."""

    right: LogicalPlan
    condition: Expr | None
    kind: str
    value: Expr


def unnest_scalar_subqueries(plan: LogicalPlan) -> LogicalPlan:
    """Join in the scalar subqueries of every Project and Filter that allow it."""
    return transform_plan(plan, _node)


def _node(node: LogicalPlan) -> LogicalPlan:
    if not isinstance(node, Project | Filter):
        return node
    found = list(
        dict.fromkeys(
            e
            for expr in node_expressions(node)
            for e in walk(expr)
            if isinstance(e, Subquery) and e.kind == "scalar"
        )
    )
    source: LogicalPlan = node.input
    values: dict[Subquery, Expr] = {}
    for subquery in found:
        joinable = _joinable(subquery, len(source.schema))
        if joinable is not None:
            source = _joined(source, joinable)
            values[subquery] = joinable.value
            continue
        found_by = _aggregate_by_domain(subquery, source)
        if found_by is not None:
            source, values[subquery] = found_by
    if not values:
        return node
    return with_values(node, source, values)


def _joined(source: LogicalPlan, j: Joinable) -> Join:
    right = j.right.schema.columns
    if j.kind in ("left", "asof_left"):
        right = tuple(Column(c.name, c.type) for c in right)
    return Join(
        schema=Schema(source.schema.columns + right),
        left=source,
        right=j.right,
        kind=j.kind,
        condition=j.condition,
    )


def with_values(
    node: Project | Filter, source: LogicalPlan, values: dict[Subquery, Expr]
) -> LogicalPlan:
    """The node over a wider input, whose row has the values of these subqueries."""

    def swap(e: Expr) -> Expr:
        return values.get(e, e) if isinstance(e, Subquery) else e

    # subqueries within operands of others are swapped too: transform goes bottom-up
    changed = map_node(node, lambda e: transform(e, swap))
    if isinstance(changed, Project):
        return replace(changed, input=source)
    assert isinstance(changed, Filter)
    wide = Filter(schema=source.schema, input=source, predicate=changed.predicate)
    exprs = tuple(column(i, c.type, c.name) for i, c in enumerate(node.schema))
    return Project(schema=node.schema, input=wide, exprs=exprs)


def _joinable(node: Subquery, width: int) -> Joinable | None:
    if not is_correlated(node.plan):
        return _uncorrelated(node, width)
    found = _correlated_aggregate(node, width) or _unique_lookup(node, width)
    return found or _nearest(node, width)


def _nearest(node: Subquery, width: int) -> Joinable | None:
    """(SELECT x FROM … WHERE time <= outer ORDER BY time DESC LIMIT 1): an ASOF join."""
    found = nearest(node.plan, width)
    if found is None or holds_subquery(found.values[0]):
        return None
    return Joinable(found.right, found.condition, "asof_left", found.values[0])


def _uncorrelated(node: Subquery, width: int) -> Joinable | None:
    if () not in unique_keys(node.plan):
        return None
    right = up_one_level(node.plan)
    c = right.schema[0]
    if _always_one(node.plan):
        return Joinable(right, None, "cross", column(width, c.type, c.name))
    return Joinable(right, TRUE, "left", column(width, c.type, c.name))


def _always_one(plan: LogicalPlan) -> bool:
    """Exactly one row, whatever the input: a global aggregate, VALUES of one row."""
    while isinstance(plan, Project):
        plan = plan.input
    if isinstance(plan, Values):
        return len(plan.rows) == 1
    return isinstance(plan, Aggregate) and not plan.keys and plan.grouping_sets is None


def _unique_lookup(node: Subquery, width: int) -> Joinable | None:
    """(SELECT x FROM t WHERE t.key = outer.y …) where the equalities hold a whole unique key."""
    lifted = lift(node.plan)
    if lifted is None:
        return None
    compared = set()
    for condition in lifted.conditions:
        sides = equality_sides(condition)
        if sides is not None and isinstance(sides[0], ColumnRef):
            compared.add(sides[0].index)
    if not any(set(key) <= compared for key in unique_keys(lifted.plan)):
        return None
    conditions = [as_join_condition(c, width) for c in lifted.conditions]
    if any(may_raise(c) for c in conditions):
        return None
    right = up_one_level(lifted.plan)
    c = right.schema[0]
    return Joinable(right, condition_of(conditions), "left", column(width, c.type, c.name))


# --- aggregates ---------------------------------------------------------------------------------
def global_aggregate(plan: LogicalPlan) -> tuple[Project | None, Aggregate] | None:
    """(the projection above it, the aggregate) of a plan that is one over all rows."""
    project = plan if isinstance(plan, Project) else None
    whole = plan if project is None else project.input
    if not isinstance(whole, Aggregate) or whole.keys or whole.grouping_sets is not None:
        return None
    return project, whole


def _correlated_aggregate(node: Subquery, width: int) -> Joinable | None:
    """(SELECT f(sum(x), count(*)) FROM … WHERE inner = outer): grouped by the inner sides."""
    found = global_aggregate(node.plan)
    if found is None:
        return None
    project, plan = found
    if project is not None and any(holds_subquery(e) for e in project.exprs):
        return None
    lifted = lift(plan.input)
    if lifted is None or not lifted.conditions:
        return None
    pairs = [equality_sides(c) for c in lifted.conditions]
    if any(p is None or any(may_raise(side) for side in p) for p in pairs):
        return None
    inner = [p[0] for p in pairs if p is not None]
    if any(e.type.kind in (Kind.REAL, Kind.DOUBLE) for e in inner):
        return None  # -0 = 0, but they may be two groups
    grouped, keys = _grouped(plan, lifted.plan, inner)
    conditions = []
    for (_, outer), key in zip((p for p in pairs if p is not None), keys, strict=True):
        side = as_join_condition(outer, width)
        key_ref = column(width + key, grouped.schema[key].type)
        conditions.append(Call(function="eq", args=(side, key_ref), type=BOOLEAN))
    value = _value(project, plan, width + len(grouped.keys), width)
    if value is None:
        return None
    return Joinable(up_one_level(grouped), condition_of(conditions), "left", value)


def _aggregate_by_domain(node: Subquery, source: LogicalPlan) -> tuple[LogicalPlan, Expr] | None:
    """(SELECT sum(x) FROM … WHERE inner < outer): once for each outer value."""
    whole = global_aggregate(node.plan)
    if whole is None:
        return None
    project, plan = whole
    if project is not None and any(holds_subquery(e) for e in project.exprs):
        return None
    if any(empty_value(call) is None for call in plan.aggregates):
        return None
    found = aggregated(source, plan)
    if found is None:
        return None
    value = _value(project, plan, found[1], len(source.schema))
    return None if value is None else (found[0], value)


def _grouped(
    plan: Aggregate, source: LogicalPlan, inner: Sequence[Expr]
) -> tuple[Aggregate, list[int]]:
    """The aggregate with the inner sides as keys, and the key positions of each of them."""
    exprs: list[Expr] = [column(i, c.type, c.name) for i, c in enumerate(source.schema)]
    positions = []
    for e in inner:
        if e not in exprs:
            exprs.append(e)
        positions.append(exprs.index(e))
    if len(exprs) > len(source.schema):
        extra = tuple(Column("", e.type) for e in exprs[len(source.schema) :])
        schema = Schema(source.schema.columns + extra)
        source = Project(schema=schema, input=source, exprs=tuple(exprs))
    keys = list(dict.fromkeys(positions))
    columns = source.schema.select(keys).columns + plan.schema.columns
    grouped = Aggregate(
        schema=Schema(columns), input=source, keys=tuple(keys), aggregates=plan.aggregates
    )
    return grouped, [keys.index(p) for p in positions]


def _value(project: Project | None, plan: Aggregate, first: int, width: int) -> Expr | None:
    """The subquery's value over [left, right], where the aggregates are right's columns from
    `first` on; a missing group is an aggregate over no rows."""
    results: list[Expr] = []
    for i, call in enumerate(plan.aggregates):
        ref: Expr = column(first + i, call.type, call_name(call.function))
        empty = empty_value(call)
        if empty is None:
            return None
        if empty.value is not None:
            ref = Call(function="coalesce", args=(ref, empty), type=call.type)
        results.append(ref)
    if project is None:
        return results[0]
    whole = as_join_condition(project.exprs[0], width)
    return replace_columns(whole, lambda r: r if r.index < width else results[r.index - width])


def empty_value(call: AggregateCall) -> Literal | None:
    """The aggregate's result over no rows; None if that is not known."""
    if call.function.startswith("duckdb:"):
        return None
    types = tuple(a.type for a in call.args)
    if is_ordered_set(call.function):
        types += tuple(k.expr.type for k in call.order_by)
    definition = registry.aggregate_of(call.function, types)
    if definition.empty == "NULL":
        return Literal(value=None, type=call.type)
    if definition.empty == "0" and call.type.is_integer:
        return Literal(value=0, type=call.type)
    return None
