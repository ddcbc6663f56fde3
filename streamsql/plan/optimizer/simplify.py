"""Constant folding and the simple laws of AND, OR, NOT, CASE and COALESCE.

>>> from streamsql.functions.expressions import TRUE, Call
>>> simplify(Call(function="and", args=(TRUE, TRUE), type=TRUE.type)) == TRUE
True
"""

from __future__ import annotations

from dataclasses import replace

from streamsql.core.errors import StreamSqlError
from streamsql.core.schema import Schema
from streamsql.core.types import BOOLEAN, Kind
from streamsql.functions.definitions import Volatility
from streamsql.functions.expressions import (
    TRUE,
    Call,
    Case,
    Cast,
    ColumnRef,
    Expr,
    Literal,
    conjunction,
    conjuncts,
    transform,
)
from streamsql.functions.resolve import volatility
from streamsql.plan.nodes import Filter, Join, LogicalPlan, Values
from streamsql.plan.optimizer.predicates import can_move
from streamsql.plan.visit import map_node, node_expressions, transform_plan

FALSE = Literal(value=False, type=BOOLEAN)
FOLDED_KINDS = frozenset(
    {
        Kind.BOOLEAN, Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT, Kind.REAL, Kind.DOUBLE,
        Kind.NUMERIC, Kind.TEXT, Kind.VARCHAR, Kind.DATE, Kind.TIME, Kind.TIMESTAMP,
        Kind.INTERVAL,
    }
)  # fmt: skip
"""Types whose constants have one canonical Literal, and whose values do not hang on the session's
time zone (which TIMESTAMPTZ does in casts and in arithmetic with days)."""


def simplify_expressions(plan: LogicalPlan) -> LogicalPlan:
    """Simplify every expression of the plan; drop filters that are always TRUE."""
    return transform_plan(plan, _node)


def _node(node: LogicalPlan) -> LogicalPlan:
    if isinstance(node, Values) and len(node.rows) > 100:
        return node
    own = node_expressions(node)
    changed = {id(e): simplify(e) for e in own}
    if any(changed[id(e)] is not e for e in own):
        node = map_node(node, lambda e: changed[id(e)])
    if isinstance(node, Filter) and node.predicate == TRUE:
        return node.input
    if isinstance(node, Join) and node.condition == TRUE and node.kind == "inner":
        return replace(node, kind="cross", condition=None)
    return node


def simplify(expr: Expr) -> Expr:
    """An equal expression, perhaps a simpler one. Never raises: what fails is left to run time."""
    return transform(expr, _one)


def _one(expr: Expr) -> Expr:
    if isinstance(expr, Call):
        rule = _RULES.get(expr.function)
        if rule is not None:
            return rule(expr)
        return _fold(expr)
    if isinstance(expr, Case):
        return _case(expr)
    if isinstance(expr, Cast):
        return _fold(expr)
    return expr


def _fold(expr: Call | Cast) -> Expr:
    """The value of an immutable call over constants, if an Arrow kernel can tell it."""
    children = expr.children()
    if isinstance(expr, Call) and _is_null(expr):
        return Literal(value=None, type=expr.type)
    if not children or not all(isinstance(c, Literal) for c in children):
        return expr
    if expr.type.kind not in FOLDED_KINDS or any(c.type.kind not in FOLDED_KINDS for c in children):
        return expr
    if volatility(expr) is not Volatility.IMMUTABLE:
        return expr
    from streamsql.functions.evaluator import Evaluator, evaluate_constant
    from streamsql.functions.literals import from_arrow_scalar

    if Evaluator([expr], Schema(())).uses_duckdb:
        return expr
    try:
        scalar = evaluate_constant(expr)
    except StreamSqlError:
        return expr
    return from_arrow_scalar(scalar, expr.type)


def _is_null(expr: Call) -> bool:
    """Has a comparison NULL for an argument? What else it reads must be safe to leave out."""
    if expr.function not in _COMPARISONS:
        return False
    null = any(isinstance(a, Literal) and a.value is None for a in expr.args)
    return null and all(can_move(a) for a in expr.args)


_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})


def _junction(expr: Call) -> Expr:
    """AND, OR: flatten, drop what changes nothing, stop at what decides."""
    neutral, deciding = (True, False) if expr.function == "and" else (False, True)
    unique: dict[Expr, None] = {}
    for arg in expr.args:
        inner = arg.args if isinstance(arg, Call) and arg.function == expr.function else (arg,)
        for a in inner:
            if isinstance(a, Literal) and a.value is neutral:
                continue
            if isinstance(a, Literal) and a.value is deciding:
                return Literal(value=deciding, type=BOOLEAN)
            unique[a] = None
    kept = tuple(unique)
    if not kept:
        return Literal(value=neutral, type=BOOLEAN)
    if len(kept) == 1:
        return kept[0]
    if expr.function == "or":
        common = _common_parts(kept)
        if common is not None:
            return common
    if kept == expr.args:
        return expr
    return Call(function=expr.function, args=kept, type=BOOLEAN, position=expr.position)


def _common_parts(branches: tuple[Expr, ...]) -> Expr | None:
    """(a AND b) OR (a AND c) → a AND (b OR c): a may be what a join can look rows up by.

    Three-valued logic has this law too. What can fail keeps its place behind its guards.
    """
    parts = [[_in_order(p) for p in conjuncts(b)] for b in branches]
    common = [p for p in parts[0] if can_move(p) and all(p in other for other in parts[1:])]
    rests = [[p for p in branch if p not in common] for branch in parts]
    if not common:
        return None
    if any(not rest for rest in rests):  # a OR (a AND c) is a
        if not all(can_move(p) for rest in rests for p in rest):
            return None
        return conjunction(common)
    either = _junction(
        Call(function="or", args=tuple(conjunction(rest) for rest in rests), type=BOOLEAN)
    )
    return Call(function="and", args=(*common, *conjuncts(either)), type=BOOLEAN)


def _in_order(part: Expr) -> Expr:
    """An equality of two columns written in one way: it is the same from both sides."""
    if isinstance(part, Call) and part.function == "eq":
        a, b = part.args
        if isinstance(a, ColumnRef) and isinstance(b, ColumnRef) and b.index < a.index:
            return replace(part, args=(b, a))
    return part


_OPPOSITE = {
    "is_null": "is_not_null",
    "is_not_null": "is_null",
    "is_true": "is_not_true",
    "is_not_true": "is_true",
    "is_false": "is_not_false",
    "is_not_false": "is_false",
    "eq": "ne",
    "ne": "eq",
}
_REVERSED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}


def _not(expr: Call) -> Expr:
    (arg,) = expr.args
    if isinstance(arg, Literal):
        value = None if arg.value is None else not arg.value
        return Literal(value=value, type=BOOLEAN)
    if isinstance(arg, Call):
        if arg.function == "not":
            return arg.args[0]
        opposite = _OPPOSITE.get(arg.function)
        if opposite is None and arg.args[0].type.kind in FOLDED_KINDS:
            opposite = _REVERSED.get(arg.function)  # their order is total
        if opposite is not None:
            return Call(function=opposite, args=arg.args, type=BOOLEAN, position=arg.position)
        if arg.function == "or":  # its parts are predicates of their own, which may move apart
            parts = tuple(_not(Call(function="not", args=(a,), type=BOOLEAN)) for a in arg.args)
            return _junction(Call(function="and", args=parts, type=BOOLEAN))
    return expr


def _coalesce(expr: Call) -> Expr:
    kept: list[Expr] = []
    for arg in expr.args:
        if isinstance(arg, Literal) and arg.value is None:
            continue
        kept.append(arg)
        if isinstance(arg, Literal):
            break
    if not kept:
        return Literal(value=None, type=expr.type)
    if len(kept) == 1 and kept[0].type == expr.type:
        return kept[0]
    if len(kept) == len(expr.args):
        return expr
    return Call(function=expr.function, args=tuple(kept), type=expr.type, position=expr.position)


def _case(expr: Case) -> Expr:
    """Branches that can never be taken go; one that always is ends the CASE."""
    whens = []
    otherwise = expr.otherwise
    for condition, result in expr.whens:
        if isinstance(condition, Literal):
            if condition.value is True:
                otherwise = result
                break
            continue
        whens.append((condition, result))
    if len(whens) == len(expr.whens):
        return expr
    if not whens:
        return Literal(value=None, type=expr.type) if otherwise is None else otherwise
    return Case(whens=tuple(whens), otherwise=otherwise, type=expr.type, position=expr.position)


def _null_test(expr: Call) -> Expr:
    (arg,) = expr.args
    if isinstance(arg, Literal):
        is_null = arg.value is None
    elif isinstance(arg, Call) and arg.function in ("array", "row", "map"):
        is_null = False
    else:
        return expr
    return Literal(value=is_null is (expr.function == "is_null"), type=BOOLEAN)


def _field(expr: Call) -> Expr:
    """(row).name of a row that is made here is what it is made of; of a CASE, in its branches."""
    base, name = expr.args
    if isinstance(base, Call) and base.function == "row" and isinstance(name, Literal):
        names = [n for n, _ in base.type.fields]
        if names.count(name.value) == 1:
            return base.args[names.index(name.value)]
    if isinstance(base, Case):
        whens = tuple((c, _field(replace(expr, args=(r, name)))) for c, r in base.whens)
        otherwise = base.otherwise
        if otherwise is not None:
            otherwise = _field(replace(expr, args=(otherwise, name)))
        return _case(Case(whens=whens, otherwise=otherwise, type=expr.type, position=expr.position))
    return expr


_RULES = {
    "and": _junction,
    "or": _junction,
    "not": _not,
    "coalesce": _coalesce,
    "field": _field,
    "is_null": _null_test,
    "is_not_null": _null_test,
}
