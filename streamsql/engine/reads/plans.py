"""Plans ready to run: parameters and now() replaced by constants, relations collected."""

from __future__ import annotations

from collections.abc import Sequence

from streamsql.core.errors import UndefinedParameter
from streamsql.functions.expressions import Call, Expr, Literal, Parameter, Subquery, walk
from streamsql.functions.literals import timestamptz_literal
from streamsql.plan.nodes import LogicalPlan, Scan
from streamsql.plan.visit import map_expressions, node_expressions, walk_plan

NOW = "now"


def freeze(plan: LogicalPlan, parameters: Sequence[Literal], now_us: int) -> LogicalPlan:
    """The plan with constants for parameters and the statement's time."""
    if not needs_freezing(plan):
        return plan
    return map_expressions(plan, lambda e: _constant(e, parameters, now_us))


def freeze_expression(expr: Expr, parameters: Sequence[Literal], now_us: int) -> Expr:
    """The same for one expression (without subqueries)."""
    from streamsql.functions.expressions import transform

    return transform(expr, lambda e: _constant(e, parameters, now_us))


def _constant(expr: Expr, parameters: Sequence[Literal], now_us: int) -> Expr:
    if isinstance(expr, Parameter):
        if expr.index > len(parameters):
            raise UndefinedParameter(
                f"there is no parameter ${expr.index}",
                position=expr.position,
                hint="Give values for the parameters, or PREPARE the statement.",
            )
        return parameters[expr.index - 1]
    if isinstance(expr, Call) and expr.function == NOW:
        return timestamptz_literal(now_us)
    return expr


def needs_freezing(plan: LogicalPlan) -> bool:
    """Whether a parameter or now() occurs anywhere."""
    return any(
        isinstance(e, Parameter) or (isinstance(e, Call) and e.function == NOW)
        for e in all_expressions(plan)
    )


def all_expressions(plan: LogicalPlan) -> list[Expr]:
    """Every expression node of the plan, those of subqueries' plans too."""
    found: list[Expr] = []
    for node in walk_plan(plan):
        for root in node_expressions(node):
            for expr in walk(root):
                found.append(expr)
                if isinstance(expr, Subquery):
                    found += all_expressions(expr.plan)
    return found


def scans(plan: LogicalPlan) -> list[Scan]:
    """Every Scan of the plan, those in subqueries too."""
    found: list[Scan] = []
    for node in walk_plan(plan):
        if isinstance(node, Scan):
            found.append(node)
        for root in node_expressions(node):
            for expr in walk(root):
                if isinstance(expr, Subquery):
                    found += scans(expr.plan)
    return found
