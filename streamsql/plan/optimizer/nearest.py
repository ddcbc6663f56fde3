"""`WHERE r.key = l.key AND r.time <= l.time ORDER BY r.time DESC LIMIT 1` for a row of l → ASOF.

The first row in the order of the very column that an inequality bounds is the nearest row, which an
ASOF join finds by its index. Of equally near rows LIMIT 1 may give any; the ASOF join takes the
greatest.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamsql.core.types import BOOLEAN
from streamsql.functions.expressions import Call, ColumnRef, Expr, Literal, column, conjunction
from streamsql.functions.resolve import needs_guard
from streamsql.plan.nodes import Limit, LogicalPlan, Project
from streamsql.plan.optimizer.decorrelate import (
    as_join_condition,
    equality_sides,
    is_correlated,
    lift,
    refers_outside,
    up_one_level,
)
from streamsql.plan.optimizer.predicates import may_raise
from streamsql.plan.visit import row_columns, shift_columns

# right time <function> left time, and whether the nearest one comes first in descending order
_BEFORE = {"lt": ("gt", True), "le": ("ge", True), "gt": ("lt", False), "ge": ("le", False)}
_TURNED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


@dataclass(frozen=True)
class Nearest:
    """right: to ASOF join. condition: over [outer row, right]. values: the subquery's columns, over
    the same."""

    right: LogicalPlan
    condition: Expr
    values: tuple[Expr, ...]


def nearest(plan: LogicalPlan, width: int) -> Nearest | None:
    """A correlated plan as the nearest row of another, or None. width: of the outer row."""
    project: Project | None = None
    if isinstance(plan, Project) and not any(refers_outside(e) for e in plan.exprs):
        project, plan = plan, plan.input
    if not isinstance(plan, Limit) or not _is_first(plan) or not is_correlated(plan.input):
        return None
    lifted = lift(plan.input)
    if lifted is None:
        return None
    (key,) = plan.order_by
    equalities: list[Expr] = []
    bounds: list[Expr] = []
    for condition in lifted.conditions:
        sides = equality_sides(condition)
        if sides is not None:
            equalities.append(Call(function="eq", args=sides[::-1], type=BOOLEAN))
            continue
        bound = _bound(condition, key.expr, key.descending)
        if bound is None:
            return None
        bounds.append(bound)
    if len(bounds) != 1:
        return None
    parts = [as_join_condition(c, width) for c in (*equalities, *bounds)]
    if any(may_raise(p) and needs_guard(p) for p in parts):
        return None
    right = up_one_level(lifted.plan)
    own = tuple(column(i, c.type, c.name) for i, c in enumerate(plan.schema))
    values = own if project is None else project.exprs
    return Nearest(right, conjunction(parts), tuple(shift_columns(v, width) for v in values))


def _is_first(plan: Limit) -> bool:
    """ORDER BY one column LIMIT 1."""
    one = isinstance(plan.limit, Literal) and plan.limit.value == 1
    return (
        one
        and plan.offset is None
        and not plan.with_ties
        and len(plan.order_by) == 1
        and isinstance(plan.order_by[0].expr, ColumnRef)
    )


def _bound(condition: Expr, key: Expr, descending: bool) -> Expr | None:
    """`outer <function> key`, if the condition bounds the key on the side it is ordered to."""
    if not isinstance(condition, Call) or condition.function not in _BEFORE:
        return None
    (a, b), function = condition.args, condition.function
    if b == key:
        a, b, function = b, a, _TURNED[function]
    if a != key or not refers_outside(b) or row_columns(b):
        return None
    turned, wanted = _BEFORE[function]
    if wanted is not descending:
        return None
    return Call(function=turned, args=(b, a), type=BOOLEAN)
