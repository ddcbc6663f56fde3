"""Lifting correlated conditions out of a subquery's plan, so that it can be joined instead."""

from __future__ import annotations

from dataclasses import dataclass, replace

from streamsql.core.schema import Schema
from streamsql.functions.expressions import (
    Call,
    ColumnRef,
    Expr,
    OuterRef,
    column,
    conjunction,
    conjuncts,
)
from streamsql.plan.nodes import Filter, Join, LogicalPlan, Project
from streamsql.plan.visit import (
    expression_outer_refs,
    map_outer,
    outer_refs,
    remap_columns,
    row_columns,
    shift_columns,
    shift_outer,
)


@dataclass(frozen=True)
class Lifted:
    """A plan without references to the row it was evaluated for, and the conditions taken out.

    plan: outputs the original columns first, then perhaps more. conditions: over the plan's row,
    with OuterRef(depth=1) for the outer row.
    """

    plan: LogicalPlan
    conditions: tuple[Expr, ...] = ()


def is_correlated(plan: LogicalPlan) -> bool:
    """Does the plan refer to the row it is evaluated for?"""
    return any(depth == 1 for _, depth in outer_refs(plan))


def refers_outside(expr: Expr) -> bool:
    """Does the expression refer to the row around its plan?"""
    return any(depth == 1 for _, depth in expression_outer_refs(expr))


def lift(plan: LogicalPlan) -> Lifted | None:
    """Take the correlated conditions of WHERE and ON out of the plan; None if correlation remains.

    Goes through filters, projections and joins where a condition may be tested later.
    """
    if not is_correlated(plan):
        return Lifted(plan)
    match plan:
        case Filter():
            return _filter(plan)
        case Project():
            return _project(plan)
        case Join():
            return _join(plan)
    return None


def _filter(plan: Filter) -> Lifted | None:
    below = lift(plan.input)
    if below is None:
        return None
    own = conjuncts(plan.predicate)
    correlated = [p for p in own if refers_outside(p)]
    plain = [p for p in own if not refers_outside(p)]
    inner = below.plan
    if plain:
        inner = Filter(schema=inner.schema, input=inner, predicate=conjunction(plain))
    return Lifted(inner, (*below.conditions, *correlated))


def _project(plan: Project) -> Lifted | None:
    if any(refers_outside(e) for e in plan.exprs):
        return None
    below = lift(plan.input)
    if below is None:
        return None
    exprs = list(plan.exprs)
    columns = list(plan.schema.columns)
    where: dict[int, int] = {}
    for condition in below.conditions:
        for i in sorted(row_columns(condition)):
            if i not in where:
                c = below.plan.schema[i]
                ref = column(i, c.type, c.name)
                where[i] = exprs.index(ref) if ref in exprs else len(exprs)
                if where[i] == len(exprs):
                    exprs.append(ref)
                    columns.append(c)
    project = Project(schema=Schema(tuple(columns)), input=below.plan, exprs=tuple(exprs))
    return Lifted(project, tuple(remap_columns(c, where) for c in below.conditions))


def _join(plan: Join) -> Lifted | None:
    if plan.lateral or plan.kind not in ("inner", "cross", "left"):
        return None
    left = lift(plan.left)
    right = lift(plan.right)
    if left is None or right is None or (plan.kind == "left" and right.conditions):
        return None
    own = [] if plan.condition is None else conjuncts(plan.condition)
    correlated = [p for p in own if refers_outside(p)]
    if plan.kind == "left" and correlated:
        return None
    plain = [p for p in own if not refers_outside(p)]
    # new row: left, left's extra columns, right, right's extra columns
    n, m = len(plan.left.schema), len(left.plan.schema)
    k = len(plan.right.schema)
    where = {i: i if i < n else i - n + m for i in range(n + k)}
    kind = "inner" if plain and plan.kind == "cross" else plan.kind
    if not plain and kind == "inner":
        kind = "cross"
    condition = conjunction([remap_columns(p, where) for p in plain]) if plain else None
    joined = replace(
        plan,
        schema=Schema(left.plan.schema.columns + right.plan.schema.columns),
        left=left.plan,
        right=right.plan,
        kind=kind,
        condition=condition,
    )
    conditions = [*left.conditions]
    conditions += [shift_columns(c, m) for c in right.conditions]
    conditions += [remap_columns(c, where) for c in correlated]
    if m == n:
        return Lifted(joined, tuple(conditions))
    return _reordered(joined, where, n + k, tuple(conditions))


def _reordered(
    joined: Join, where: dict[int, int], width: int, conditions: tuple[Expr, ...]
) -> Lifted:
    """Original columns first, the extra ones behind."""
    order = [where[i] for i in range(width)]
    order += [i for i in range(len(joined.schema)) if i not in set(order)]
    back = {old: new for new, old in enumerate(order)}
    exprs = tuple(column(i, joined.schema[i].type, joined.schema[i].name) for i in order)
    project = Project(schema=joined.schema.select(order), input=joined, exprs=exprs)
    return Lifted(project, tuple(remap_columns(c, back) for c in conditions))


# --- from subquery to join condition ------------------------------------------------------------
def as_join_condition(condition: Expr, left_width: int) -> Expr:
    """A lifted condition over [outer row, subquery row], one level further up.

    The subquery's columns move behind the outer row's; OuterRef(1) becomes a column of the outer
    row, deeper references lose one level.
    """
    shifted = shift_columns(condition, left_width)

    def move(ref: OuterRef, level: int) -> Expr:
        if ref.depth <= level:
            return ref
        if ref.depth == level + 1:
            if level == 0:
                return ColumnRef(
                    index=ref.index, type=ref.type, name=ref.name, position=ref.position
                )
            return replace(ref, depth=level)
        return replace(ref, depth=ref.depth - 1)

    return map_outer(shifted, move)


def up_one_level(plan: LogicalPlan) -> LogicalPlan:
    """An uncorrelated subquery's plan as a join input: deeper references lose one level."""
    return shift_outer(plan, -1, above=1)


def equality_sides(condition: Expr) -> tuple[Expr, Expr] | None:
    """(inner side, outer side) of a lifted `inner = outer`; None for any other condition."""
    if not isinstance(condition, Call) or condition.function != "eq":
        return None
    for inner, outer in (condition.args, condition.args[::-1]):
        if (
            row_columns(inner)
            and not refers_outside(inner)
            and not row_columns(outer)
            and refers_outside(outer)
        ):
            return inner, outer
    return None
