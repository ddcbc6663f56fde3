"""Parameters $1, $2, …: PostgreSQL's inference, the first use that needs a type decides.

An untyped parameter is a `Parameter` of type UNKNOWN, so coercion treats it as it treats a string
literal. What coercion makes of it is noted here, and every later use has that type.
"""

from __future__ import annotations

from streamsql.core.errors import AmbiguousParameter, UndefinedParameter
from streamsql.core.types import TEXT, UNKNOWN, Kind, SqlType
from streamsql.functions.expressions import Cast, Expr, Parameter
from streamsql.plan.binder.context import BindContext
from streamsql.plan.nodes import LogicalPlan
from streamsql.plan.visit import map_expressions

MAX_PARAMETERS = 65535


def parameter(context: BindContext, index: int, position: int | None) -> Parameter:
    """$index with the type known so far.

    Raises: UndefinedParameter (42P02) where the statement takes none.
    """
    types = context.parameter_types
    if types is None or index < 1 or index > MAX_PARAMETERS:
        raise UndefinedParameter(
            f"there is no parameter ${index}",
            position=position,
            hint="Send the statement with parameters (extended protocol), or PREPARE it.",
        )
    while len(types) < index:
        types.append(None)
    known = types[index - 1]
    return Parameter(index=index, type=UNKNOWN if known is None else known, position=position)


def note_types(context: BindContext, expr: Expr) -> None:
    """Remember the types that coercion gave to parameters directly below `expr`."""
    types = context.parameter_types
    if not types:
        return
    stack = [expr]
    while stack:
        e = stack.pop()
        if isinstance(e, Parameter):
            _note(types, e, e.type)
        elif isinstance(e, Cast) and _is_untyped(e.arg):
            assert isinstance(e.arg, Parameter)
            _note(types, e.arg, e.type)
        else:
            stack.extend(e.children())


def _is_untyped(expr: Expr) -> bool:
    return isinstance(expr, Parameter) and expr.type.kind is Kind.UNKNOWN


def _note(types: list[SqlType | None], parameter: Parameter, found: SqlType) -> None:
    if found.kind is Kind.UNKNOWN:
        return
    index = parameter.index
    known = types[index - 1]
    if known is None:
        types[index - 1] = found
    elif known.kind is not found.kind:
        raise AmbiguousParameter(
            f"inconsistent types deduced for parameter ${index}",
            position=parameter.position,
            detail=f"{known} versus {found}",
            hint=f"Write a cast: ${index}::{known}",
        )


def settle(plan: LogicalPlan, context: BindContext) -> LogicalPlan:
    """Give every parameter of the finished plan its type; those never used with one are text."""
    types = context.parameter_types
    if not types:
        return plan

    def note(e: Expr) -> Expr:
        if isinstance(e, Parameter):
            _note(types, e, e.type)
        return e

    map_expressions(plan, note)  # those that set operations and subqueries gave a type to
    for i, t in enumerate(types):
        if t is None:
            types[i] = TEXT
    final = [t or TEXT for t in types]
    return map_expressions(plan, lambda e: settle_expression(e, final))


def settle_expression(expr: Expr, types: list[SqlType]) -> Expr:
    """One expression node: an untyped parameter takes its final type."""
    if isinstance(expr, Parameter) and expr.type.kind is Kind.UNKNOWN:
        return Parameter(index=expr.index, type=types[expr.index - 1], position=expr.position)
    if (
        isinstance(expr, Cast)
        and isinstance(expr.arg, Parameter)
        and expr.arg.type == expr.type
        and not expr.try_
    ):
        return expr.arg
    return expr
