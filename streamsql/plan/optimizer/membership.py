"""WHERE [NOT] EXISTS, [NOT] IN, = ANY → semi and anti joins."""

from __future__ import annotations

from dataclasses import dataclass

from streamsql.core.types import BOOLEAN
from streamsql.functions.expressions import (
    Call,
    Expr,
    Literal,
    Subquery,
    column,
    conjuncts,
)
from streamsql.functions.resolve import needs_guard
from streamsql.plan.nodes import Distinct, Filter, Join, Limit, LogicalPlan, Project, Sort
from streamsql.plan.optimizer.decorrelate import as_join_condition, lift, up_one_level
from streamsql.plan.optimizer.predicates import condition_of, filtered, holds_subquery, may_raise
from streamsql.plan.visit import transform_plan


@dataclass(frozen=True)
class Membership:
    """A conjunct that keeps or drops rows by what a subquery holds."""

    right: LogicalPlan
    condition: Expr | None
    kind: str
    null_aware: bool = False


def unnest_membership(plan: LogicalPlan) -> LogicalPlan:
    """Turn membership conjuncts of every Filter into joins, where the subquery can stand alone."""
    return transform_plan(plan, _node)


def _node(node: LogicalPlan) -> LogicalPlan:
    if not isinstance(node, Filter):
        return node
    below: list[Expr] = []
    above: list[Expr] = []
    joins: list[Membership] = []
    for part in conjuncts(node.predicate):
        found = _membership(part, len(node.schema))
        if found is not None:
            joins.append(found)
        elif joins and may_raise(part):
            above.append(part)  # written behind a test that may keep its bad rows out
        else:
            below.append(part)
    if not joins:
        return node
    plan = filtered(node.input, below)
    for j in joins:
        plan = Join(
            schema=plan.schema,
            left=plan,
            right=j.right,
            kind=j.kind,
            condition=j.condition,
            null_aware=j.null_aware,
        )
    return filtered(plan, above)


def _membership(part: Expr, width: int) -> Membership | None:
    negate = False
    while isinstance(part, Call) and part.function == "not":
        negate, part = not negate, part.args[0]
    if not isinstance(part, Subquery):
        return None
    if part.kind == "exists":
        return _exists(part, width, negate)
    if part.kind == "in":
        return _in(part, width, negate != part.negated)
    if part.kind == "any" and not negate:
        return _in(part, width, False)
    return None


def _exists(node: Subquery, width: int, negate: bool) -> Membership | None:
    lifted = lift(any_row(node.plan))
    if lifted is None:
        return None
    conditions = [as_join_condition(c, width) for c in lifted.conditions]
    # overflow alone keeps nothing from being a join: the same pairs are compared either way
    if any(may_raise(c) and needs_guard(c) for c in conditions):
        return None
    kind = "anti" if negate else "semi"
    return Membership(up_one_level(lifted.plan), condition_of(conditions), kind)


def any_row(plan: LogicalPlan) -> LogicalPlan:
    """What is left of a plan when only the presence of a row matters."""
    while _is_transparent(plan):
        plan = plan.inputs()[0]
    return plan


def _is_transparent(plan: LogicalPlan) -> bool:
    """Does the node have a row exactly if its input has one?"""
    if isinstance(plan, Project):
        return not any(holds_subquery(e) for e in plan.exprs)
    if isinstance(plan, Limit):
        return _at_least_one(plan)
    return isinstance(plan, Distinct | Sort)


def _at_least_one(plan: Limit) -> bool:
    if plan.offset is not None:
        return False
    return plan.limit is None or (
        isinstance(plan.limit, Literal) and (plan.limit.value is None or plan.limit.value > 0)
    )


def _in(node: Subquery, width: int, negate: bool) -> Membership | None:
    if any(may_raise(o) for o in node.operands):
        return None
    plan = node.plan
    while isinstance(plan, Distinct | Sort):
        plan = plan.input
    lifted = lift(plan)
    if lifted is None:
        return None
    residual = [as_join_condition(c, width) for c in lifted.conditions]
    if any(may_raise(c) for c in residual):
        return None
    members = []
    for i, operand in enumerate(node.operands):
        c = lifted.plan.schema[i]
        args = (operand, column(width + i, c.type, c.name))
        members.append(Call(function=node.operator, args=args, type=BOOLEAN))
    if not negate:
        return Membership(up_one_level(lifted.plan), condition_of([*members, *residual]), "semi")
    known = [Call(function="is_true", args=(c,), type=BOOLEAN) for c in residual]
    return Membership(
        up_one_level(lifted.plan), condition_of([*members, *known]), "anti", null_aware=True
    )
