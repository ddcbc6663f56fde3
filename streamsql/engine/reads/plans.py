"""Plans ready to run: parameters and now() replaced by constants, relations collected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from streamsql.core.errors import UndefinedParameter
from streamsql.core.types import BOOLEAN
from streamsql.functions.evaluator import evaluate_constant
from streamsql.functions.expressions import (
    Call,
    Cast,
    Expr,
    Literal,
    Parameter,
    Subquery,
    walk,
)
from streamsql.functions.literals import timestamptz_literal
from streamsql.plan.nodes import LogicalPlan
from streamsql.plan.visit import map_expressions, node_expressions, walk_plan

NOW = "now"

IN_LIST_MAX = 10_000
"""Elements of an array that are written out as a list."""


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
    if isinstance(expr, Call) and expr.function in ("eq_any", "ne_all"):
        return _in_list(expr)
    return expr


def _in_list(call: Call) -> Expr:
    """x = ANY ($1) as x IN (elements), which an index answers; x <> ALL ($1) as NOT IN."""
    value, array = call.args[0], _array_constant(call.args[1])
    if not isinstance(array, Literal) or array.value is None or array.type.element is None:
        return call
    if len(array.value) > IN_LIST_MAX:
        return call
    negated = call.function == "ne_all"
    if not array.value:
        return Literal(value=negated, type=BOOLEAN, position=call.position)
    elements = tuple(Literal(value=item, type=array.type.element) for item in array.value)
    function = "eq" if len(elements) == 1 else "in"
    found = replace(call, function=function, args=(value, *elements))
    return replace(call, function="not", args=(found,)) if negated else found


def _array_constant(array: Expr) -> Expr:
    """An array of integers or texts that is cast (drivers send smallint[]) as the array it is."""
    element = array.type.element
    if not (isinstance(array, Cast) and isinstance(array.arg, Literal)):
        return array
    if element is None or not (element.is_integer or element.is_text):
        return array
    value = evaluate_constant(array).as_py()
    return Literal(value=None if value is None else tuple(value), type=array.type)


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
