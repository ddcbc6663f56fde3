"""What the rules ask of predicates: may it move, which side of a join, does it reject NULLs."""

from __future__ import annotations

from collections.abc import Sequence

from streamsql.functions.definitions import Volatility
from streamsql.functions.expressions import (
    TRUE,
    Call,
    Cast,
    ColumnRef,
    Expr,
    Literal,
    Subquery,
    conjunction,
    conjuncts,
    transform,
    walk,
)
from streamsql.functions.resolve import call_definition, can_fail, volatility
from streamsql.plan.nodes import Filter, LogicalPlan


def can_move(expr: Expr) -> bool:
    """May the expression be evaluated for other rows than it was written for?

    Not if it can raise for a row, holds a subquery, or is volatile.
    """
    return not may_raise(expr) and not is_volatile(expr)


def may_raise(expr: Expr) -> bool:
    """`can_fail`, but for LIKE with a constant pattern that is well-formed, and for moments that
    now() and constants make: they fail for every row or for none."""
    expr = _without_moments(expr)
    if not can_fail(expr):
        return False

    def tame(e: Expr) -> Expr:
        if isinstance(e, Call) and e.function in ("like", "ilike") and len(e.args) == 2:
            text, pattern = e.args
            plain = isinstance(pattern, Literal) and "\\" not in str(pattern.value)
            return TRUE if plain and not can_fail(text) else e
        return e

    return can_fail(transform(expr, tame))


def reads_clock(expr: Expr) -> bool:
    """Does now() stand in the expression (not inside of subqueries)?"""
    return any(isinstance(e, Call) and e.function == "now" for e in walk(expr))


def _without_moments(expr: Expr) -> Expr:
    """The expression with NULL for the largest parts that read the clock but no row."""
    if not reads_clock(expr):
        return expr
    if not any(isinstance(e, ColumnRef | Subquery) for e in walk(expr)):
        return Literal(value=None, type=expr.type)
    return expr.with_children(tuple(_without_moments(c) for c in expr.children()))


def is_volatile(expr: Expr) -> bool:
    """random() and the like."""
    return volatility(expr) is Volatility.VOLATILE


def holds_subquery(expr: Expr) -> bool:
    """Is there a subquery in the expression?"""
    return any(isinstance(e, Subquery) for e in walk(expr))


def filtered(plan: LogicalPlan, predicates: Sequence[Expr]) -> LogicalPlan:
    """Filter over the plan, if there is anything to filter by."""
    if not predicates:
        return plan
    return Filter(schema=plan.schema, input=plan, predicate=conjunction(list(predicates)))


def condition_of(predicates: Sequence[Expr]) -> Expr | None:
    """A join condition from its parts; None for none."""
    kept = [p for p in predicates if p != TRUE]
    return conjunction(kept) if kept else None


def parts_of(condition: Expr | None) -> list[Expr]:
    """The AND-ed parts of a join condition."""
    return [] if condition is None else conjuncts(condition)


_NULL_REJECTING = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "like", "ilike"})


def rejects_null(predicate: Expr, columns: set[int]) -> bool:
    """Is the predicate never TRUE when all of `columns` are NULL (as an outer join makes them)?"""
    if not isinstance(predicate, Call):
        return isinstance(predicate, ColumnRef) and predicate.index in columns
    name, args = predicate.function, predicate.args
    if name == "and":
        return any(rejects_null(a, columns) for a in args)
    if name == "or":
        return all(rejects_null(a, columns) for a in args)
    if name in _NULL_REJECTING:
        return any(_null_with(a, columns) for a in args)
    if name in ("is_not_null", "is_true", "in"):
        return _null_with(args[0], columns)
    return False


def _null_with(expr: Expr, columns: set[int]) -> bool:
    """Is the value NULL whenever `columns` are?"""
    if isinstance(expr, ColumnRef):
        return expr.index in columns
    if isinstance(expr, Cast):
        return _null_with(expr.arg, columns)
    if isinstance(expr, Call) and expr.function not in ("and", "or"):
        definition = call_definition(expr)
        if definition is not None and definition.strict:
            return any(_null_with(a, columns) for a in expr.args)
    return False
