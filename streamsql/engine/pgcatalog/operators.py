"""Operators of catalog queries: comparison, patterns, arrays, concatenation, arithmetic."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from streamsql.core.errors import FeatureNotSupported
from streamsql.engine.pgcatalog import pgtypes as t
from streamsql.engine.pgcatalog.casts import cast, coerce, text_of
from streamsql.engine.pgcatalog.scope import Context, Typed

COMPARISONS: dict[type[exp.Expression], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}
ARITHMETIC: dict[type[exp.Expression], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "//",
    exp.Mod: "%",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
}
PATTERNS: dict[str, str] = {"~": "", "~*": "i", "!~": "", "!~*": "i"}
"""Regular expression operators -> DuckDB's options."""


def unify(context: Context, left: Typed, right: Typed) -> tuple[Typed, Typed]:
    """Two operands that meet: the open one takes the other's type."""
    left_open = left.literal is not None or left.parameter is not None
    right_open = right.literal is not None or right.parameter is not None
    if left_open and right_open:
        return coerce(context, left, t.TEXT_OID), coerce(context, right, t.TEXT_OID)
    if left_open:
        return coerce(context, left, right.type), right
    if right_open:
        return left, coerce(context, right, left.type)
    if left.type in t.TEXTS and right.type in t.REGISTERED:
        return left, cast(context, right, t.TEXT_OID)
    if right.type in t.TEXTS and left.type in t.REGISTERED:
        return cast(context, left, t.TEXT_OID), right
    return left, right


def compare(context: Context, operator: str, left: Typed, right: Typed) -> Typed:
    """A comparison of two values."""
    left, right = unify(context, left, right)
    return Typed(f"({left.sql} {operator} {right.sql})", t.BOOL)


def match(context: Context, operator: str, left: Typed, right: Typed) -> Typed:
    """~ and its kin: RE2 knows nearly all of what clients write in PostgreSQL's syntax."""
    a, b = text_of(context, left), text_of(context, right)
    options = PATTERNS[operator]
    extra = f", '{options}'" if options else ""
    sql = f"regexp_matches({a}, {b}{extra})"
    return Typed(f"(NOT {sql})" if operator[0] == "!" else sql, t.BOOL)


def like(context: Context, node: exp.Expression, left: Typed, right: Typed, escape: str) -> Typed:
    """LIKE, ILIKE, SIMILAR TO. escape: DuckDB text of the escape character."""
    a, b = text_of(context, left), text_of(context, right)
    if isinstance(node, exp.SimilarTo):
        return Typed(f"regexp_full_match({a}, replace(replace({b}, '%', '.*'), '_', '.'))", t.BOOL)
    word = "ILIKE" if isinstance(node, exp.ILike) else "LIKE"
    return Typed(f"({a} {word} {b} ESCAPE {escape})", t.BOOL)


def in_array(
    context: Context, test: Callable[[Typed], Typed], operator: str, left: Typed, array: Typed
) -> Typed:
    """`left op ANY(array)`: test is the comparison with one element."""
    if array.literal is not None or array.parameter is not None:
        element = left.type if left.literal is None and left.parameter is None else t.TEXT_OID
        array = coerce(context, array, t.ARRAY_TYPE.get(element, 1009))
    element = t.element_of(array.type)
    left = coerce(context, left, element)
    if operator == "=" and left.type not in t.REGISTERED:
        return Typed(f"list_contains({array.sql}, {left.sql})", t.BOOL)
    inner = test(Typed("e", element))
    return Typed(f"list_bool_or(list_transform({array.sql}, lambda e: {inner.sql}))", t.BOOL)


def concat(context: Context, left: Typed, right: Typed) -> Typed:
    """||: arrays are joined, everything else is text."""
    if t.is_array(left.type) or t.is_array(right.type):
        array = left.type if t.is_array(left.type) else right.type
        parts = []
        for side in (left, right):
            if t.is_array(side.type):
                parts.append(side.sql)
            else:
                parts.append(f"[{coerce(context, side, t.element_of(array)).sql}]")
        return Typed(f"list_concat({parts[0]}, {parts[1]})", array)
    a, b = text_of(context, left), text_of(context, right)
    return Typed(f"({a} || {b})", t.TEXT_OID)


def arithmetic(context: Context, node: exp.Expression, left: Typed, right: Typed) -> Typed:
    """+ - * / and bits; the wider type wins."""
    left, right = unify(context, left, right)
    operator = ARITHMETIC[type(node)]
    order = (t.INT2, t.INT4, t.OID, t.INT8, t.NUMERIC_OID, t.FLOAT4, t.FLOAT8)
    ranks = [order.index(s.type) if s.type in order else -1 for s in (left, right)]
    type_ = left.type if ranks[0] >= ranks[1] else right.type
    if operator == "//" and max(ranks) > order.index(t.INT8):
        operator = "/"
    return Typed(f"({left.sql} {operator} {right.sql})", type_)


def other(context: Context, operator: str, left: Typed, right: Typed) -> Typed:
    """The operators that have no node of their own."""
    if operator in PATTERNS:
        return match(context, operator, left, right)
    left, right = unify(context, left, right)
    arrays = {
        "@>": f"list_has_all({left.sql}, {right.sql})",
        "<@": f"list_has_all({right.sql}, {left.sql})",
        "&&": f"list_has_any({left.sql}, {right.sql})",
    }
    if operator in arrays and t.is_array(left.type):
        return Typed(arrays[operator], t.BOOL)
    if operator in ("->", "->>"):
        type_ = t.TEXT_OID if operator == "->>" else left.type
        return Typed(f"(CAST({left.sql} AS JSON) {operator} {right.sql})", type_)
    if operator == "^@":
        return Typed(f"starts_with({left.sql}, {right.sql})", t.BOOL)
    raise FeatureNotSupported(
        f"operator {operator} is not supported in a query of the catalog",
        hint="Copy what you need into a table first.",
    )
