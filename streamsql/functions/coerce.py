"""Bringing an expression to a type, and finding the type that several share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from streamsql.core.errors import CannotCoerce, DatatypeMismatch, StringTooLong
from streamsql.core.types import TEXT, Kind, SqlType, array_of, numeric
from streamsql.functions.casts import Context, can_cast
from streamsql.functions.expressions import Call, Cast, Expr, Literal, Parameter
from streamsql.functions.literals import parse_literal, tight_numeric
from streamsql.functions.numeric_types import exact_type, is_bare
from streamsql.functions.overloads import common_of, same_kind
from streamsql.functions.textio.scalar_input import fit_decimal

_CONTEXTS = {c.name.lower(): c for c in Context}
_INT_BITS = {Kind.SMALLINT: 15, Kind.INTEGER: 31, Kind.BIGINT: 63}


def coerce(
    expr: Expr, target: SqlType, context: str = "implicit", *, timezone: str = "UTC"
) -> Expr:
    """`expr` as a value of exactly `target`.

    context: "implicit" (function arguments, operators), "assignment" (INSERT, UPDATE), "explicit"
    (CAST). Untyped literals are read here; untyped parameters take the type.
    Raises: DatatypeMismatch (42804) or, for CAST, CannotCoerce (42846); 22P02 and kin for literals.
    """
    if expr.type.kind is Kind.UNKNOWN and target.kind is not Kind.UNKNOWN:
        made = _from_unknown(expr, target, _CONTEXTS[context], timezone)
    else:
        made = _typed(expr, target.plain, context, timezone)
    return made if target.plain is target else _rounded(made, target)


def _rounded(expr: Expr, target: SqlType) -> Expr:
    """A time with as many digits as the type has; see `SqlType.digits`."""
    if isinstance(expr, Literal) and expr.value is None:
        return replace(expr, type=target)
    if expr.type.leaf_digits == target.leaf_digits:
        return expr
    digits = Literal(value=target.leaf_digits, type=SqlType(Kind.INTEGER))
    return Call(function="time_digits", args=(expr, digits), type=target, position=expr.position)


def _typed(expr: Expr, target: SqlType, context: str, timezone: str) -> Expr:
    how = _CONTEXTS[context]
    if expr.type == target:
        return expr
    if not can_cast(expr.type, target, how):
        raise _refusal(expr, target, how)
    if isinstance(expr, Literal):
        folded = _fold_literal(expr, target, how)
        if folded is not None:
            return folded
    if isinstance(expr, Call) and expr.function == "array" and target.element is not None:
        # ARRAY[…] is brought to the type element by element, so that literals in it are read
        args = tuple(coerce(a, target.element, context, timezone=timezone) for a in expr.args)
        return replace(expr, args=args, type=target)
    if target.kind is Kind.VARCHAR and target.length is not None and how is not Context.EXPLICIT:
        # assignment refuses what is too long, CAST cuts it
        inner = expr if expr.type.is_text else Cast(arg=expr, type=TEXT, position=expr.position)
        length = Literal(value=target.length, type=SqlType(Kind.INTEGER))
        return Call(
            function="varchar_assign", args=(inner, length), type=target, position=expr.position
        )
    return Cast(arg=expr, type=target, position=expr.position)


def coerce_argument(expr: Expr, target: SqlType, *, timezone: str = "UTC") -> Expr:
    """As implicit `coerce`, but a target of NUMERIC or TEXT means "any of that kind": an argument
    keeps its precision or length, an integer becomes the NUMERIC that just holds it."""
    source = expr.type
    if same_kind(target, source):
        if source.is_text and source.kind is not target.kind:
            return coerce(expr, target)
        return expr
    if is_bare(target):
        if isinstance(expr, Literal) and isinstance(expr.value, int) and source.is_integer:
            width = len(str(abs(expr.value)))
            return replace(
                expr, value=Decimal(expr.value), type=numeric(width, 0, constrained=False)
            )
        if source.is_integer:
            return coerce(expr, exact_type(source))
        if source.kind is Kind.UNKNOWN and isinstance(expr, Literal) and expr.value is not None:
            return _tight_numeric_literal(expr)
    return coerce(expr, target, timezone=timezone)


def _tight_numeric_literal(expr: Literal) -> Expr:
    """An untyped literal as the NUMERIC of its own digits."""
    read = parse_literal(expr.value, SqlType(Kind.NUMERIC), expr.position)  # checks the form
    type_ = tight_numeric(Decimal(expr.value.strip()), expr.position)
    return replace(read, value=fit_decimal(Decimal(expr.value.strip()), type_), type=type_)


def _from_unknown(expr: Expr, target: SqlType, how: Context, timezone: str) -> Expr:
    if isinstance(expr, Literal):
        if expr.value is None:
            return replace(expr, type=target)
        text = str(expr.value)
        if target.kind is Kind.VARCHAR and target.length is not None and how is Context.EXPLICIT:
            text = text[: target.length]
        if target.kind is Kind.ARRAY and how is Context.EXPLICIT:
            target = _with_dimensions(target, text)
        return parse_literal(text, target, expr.position, timezone)
    if isinstance(expr, Parameter):
        return replace(expr, type=target.plain)
    return coerce(replace(expr, type=TEXT), target, "explicit", timezone=timezone)


def _with_dimensions(target: SqlType, text: str) -> SqlType:
    """int[] holds arrays of any dimensions in PostgreSQL; here '{{1},{2}}'::int[] is an int[][]."""
    t: SqlType | None = target
    depth = len(text.lstrip()) - len(text.lstrip().lstrip("{"))
    while depth and t is not None and t.kind is Kind.ARRAY:
        depth, t = depth - 1, t.element
    for _ in range(depth):
        target = array_of(target)
    return target


def _fold_literal(expr: Literal, target: SqlType, how: Context) -> Expr | None:
    """Casts of constants that need no arithmetic: to a wider number, to a text type."""
    value = expr.value
    if value is None:
        return replace(expr, type=target)
    source = expr.type
    if source.kind is Kind.ARRAY and target.kind is Kind.ARRAY:
        return _fold_array(expr, target, how)
    if source.is_integer and target.is_integer:
        bits = _INT_BITS[target.kind]
        return replace(expr, type=target) if -(2**bits) <= value < 2**bits else None
    if source.is_integer and target.kind is Kind.DOUBLE:
        return replace(expr, value=float(value), type=target)
    if target.kind is Kind.NUMERIC and (source.is_integer or source.kind is Kind.NUMERIC):
        return replace(expr, value=fit_decimal(Decimal(value), target), type=target)
    if source.kind is Kind.NUMERIC and target.kind is Kind.DOUBLE:
        return replace(expr, value=float(value), type=target)
    if source.is_text and target.is_text:
        if target.length is None or len(value) <= target.length:
            return replace(expr, type=target)
        if how is Context.EXPLICIT or not value[target.length :].strip(" "):
            return replace(expr, value=value[: target.length], type=target)
        raise StringTooLong(f"value too long for type {target}", position=expr.position)
    return None


def _fold_array(expr: Literal, target: SqlType, how: Context) -> Expr | None:
    """A constant array, element by element; None if some element is not that simple."""
    source, wanted = expr.type.element, target.element
    assert source is not None and wanted is not None
    items = [coerce(Literal(value=v, type=source), wanted, how.name.lower()) for v in expr.value]
    values = tuple(i.value for i in items if isinstance(i, Literal))
    return replace(expr, value=values, type=target) if len(values) == len(items) else None


def _refusal(expr: Expr, target: SqlType, how: Context) -> DatatypeMismatch | CannotCoerce:
    if how is Context.EXPLICIT:
        return CannotCoerce(f"cannot cast type {expr.type} to {target}", position=expr.position)
    hint = "You will need to rewrite or cast the expression."
    return DatatypeMismatch(
        f"type {target} is required but expression is of type {expr.type}",
        position=expr.position,
        hint=hint if can_cast(expr.type, target, Context.EXPLICIT) else None,
    )


def common_type(
    types: Sequence[SqlType], what: str = "UNION", position: int | None = None
) -> SqlType:
    """The type that `types` are brought to in UNION, CASE, VALUES, COALESCE, ARRAY, IN.

    Unknown literals alone give TEXT. Raises: DatatypeMismatch (42804).
    """
    found = common_of(types)
    if found is not None:
        return found
    known = [t for t in types if t.kind is not Kind.UNKNOWN]
    clash = next((t for t in known[1:] if common_of([known[0], t]) is None), known[-1])
    raise DatatypeMismatch(
        f"{what} types {known[0]} and {clash} cannot be matched", position=position
    )


def array_type(element_types: Sequence[SqlType]) -> SqlType:
    """The type of ARRAY[…] over elements of these types."""
    return array_of(common_type(element_types, "ARRAY"))
