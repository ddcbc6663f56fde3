"""From a name and bound arguments to a typed call: functions, operators, aggregates, windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from streamsql.core.errors import (
    AmbiguousFunction,
    DatatypeMismatch,
    FeatureNotSupported,
    InvalidArgumentForNthValue,
    InvalidArgumentForNtile,
    NumericValueOutOfRange,
    UndefinedFunction,
    WindowingError,
    WrongObjectType,
)
from streamsql.core.schema import Schema
from streamsql.core.types import BOOLEAN, TEXT, Kind, SqlType
from streamsql.functions import registry
from streamsql.functions.coerce import coerce, coerce_argument
from streamsql.functions.definitions import (
    Definition,
    FunctionDef,
    Pattern,
    Poly,
    Volatility,
)
from streamsql.functions.expressions import (
    AggregateCall,
    Call,
    Cast,
    ColumnRef,
    Expr,
    Frame,
    Literal,
    OuterRef,
    SortKey,
    WindowCall,
    walk,
)
from streamsql.functions.other_names import hint_for
from streamsql.functions.overloads import bind_markers, common_of, select_overload
from streamsql.functions.special import SPECIAL

D = TypeVar("D", bound=Definition)


def resolve_call(name: str, args: list[Expr], position: int | None = None) -> Expr:
    """A scalar function or operator call, with the coercions its overload needs.

    `name` is a function name in lower case or an operator ("+", "||", "->>", "like", "is_null", …).
    Raises: UndefinedFunction (42883), AmbiguousFunction (42725), and what coercion raises.
    """
    special = SPECIAL.get(name)
    if special is not None:
        made = special(args, position)
        if made is not None:
            return made
    definitions = registry.functions().get(name)
    if definitions is None:
        return _foreign_call(name, args, position)
    found = _select(definitions, name, args, position)
    coerced = _coerce_args(found, args)
    types = tuple(a.type for a in coerced)
    if isinstance(found, FunctionDef) and found.result_of is not None:
        type_ = found.result_of(coerced)
    else:
        type_ = result_type(found, types)
    return Call(function=found.name, args=coerced, type=type_, position=position)


def _select(definitions: Sequence[D], name: str, args: Sequence[Expr], position: int | None) -> D:
    types = [a.type for a in args]
    found = select_overload(definitions, types)
    if not isinstance(found, list):
        return found
    if not found:
        raise undefined(name, types, position)
    shown = signature(name, types)
    what = "function" if _is_word(name) else "operator"
    raise AmbiguousFunction(
        f"{what} {shown} is not unique"
        if what == "function"
        else f"operator is not unique: {shown}",
        position=position,
        hint=f"Could not choose a best candidate {what}. "
        "You might need to add explicit type casts.",
    )


def _is_word(name: str) -> bool:
    return name.replace("_", "").isalnum()


_INFIX_WORDS = {
    "like": "~~", "ilike": "~~*", "not_like": "!~~", "not_ilike": "!~~*", "eq": "=", "ne": "<>",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "add": "+", "subtract": "-", "multiply": "*",
    "divide": "/", "modulo": "%", "negate": "-", "in": "=", "between": ">=",
}  # fmt: skip


def signature(name: str, types: Sequence[SqlType]) -> str:
    """As PostgreSQL prints it: "f(integer, text)", "integer + text", "- text"."""
    operator = _INFIX_WORDS.get(name, name)
    shown = [str(t.kind.value if t.kind is not Kind.ARRAY else t) for t in types]
    if _is_word(operator) or len(types) not in (1, 2):
        return f"{name}({', '.join(shown)})"
    return f"{operator} {shown[0]}" if len(types) == 1 else f"{shown[0]} {operator} {shown[1]}"


def undefined(name: str, types: Sequence[SqlType], position: int | None) -> UndefinedFunction:
    """42883 with PostgreSQL's wording."""
    shown = signature(name, types)
    if _is_word(_INFIX_WORDS.get(name, name)):
        return UndefinedFunction(
            f"function {shown} does not exist",
            position=position,
            hint=hint_for(name)
            or "No function matches the given name and argument types. "
            "You might need to add explicit type casts.",
        )
    return UndefinedFunction(
        f"operator does not exist: {shown}",
        position=position,
        hint="No operator matches the given name and argument types. "
        "You might need to add explicit type casts.",
    )


def _coerce_args(definition: Definition, args: Sequence[Expr]) -> tuple[Expr, ...]:
    """The arguments brought to the overload's types, markers bound."""
    patterns = definition.patterns(len(args))
    assert patterns is not None
    types = [a.type for a in args]
    bound = bind_markers(patterns, types) or {}
    targets: Sequence[Pattern] = patterns
    if definition.coerce_to is not None:
        targets = definition.coerce_to[: len(args)]
    return tuple(_to_pattern(a, p, bound) for a, p in zip(args, targets, strict=True))


def _to_pattern(arg: Expr, pattern: Pattern, bound: dict[Poly, SqlType]) -> Expr:
    if isinstance(pattern, SqlType):
        return coerce_argument(arg, pattern)
    if pattern is Poly.ANY:
        return coerce(arg, TEXT) if arg.type.kind is Kind.UNKNOWN else arg
    return coerce(arg, bound[pattern])


def result_type(definition: Definition, types: tuple[SqlType, ...]) -> SqlType:
    """The type of a call of this overload over coerced argument types."""
    rule = definition.result  # type: ignore[union-attr]
    if isinstance(rule, SqlType):
        return rule
    if not isinstance(rule, Poly):
        return rule(types).plain
    patterns = definition.patterns(len(types))
    assert patterns is not None
    bound = bind_markers(patterns, types) or {}
    return bound[rule].plain


# --- aggregates ---------------------------------------------------------------------------------
def is_aggregate(name: str) -> bool:
    """Whether a function name is an aggregate (ours or DuckDB's)."""
    if name in registry.aggregates():
        return True
    return name not in registry.functions() and _foreign_kind(name) == "aggregate"


def is_ordered_set(name: str) -> bool:
    """Whether the aggregate takes WITHIN GROUP (percentile_cont, mode, …)."""
    return any(d.ordered_set for d in registry.aggregates().get(name, ()))


def resolve_aggregate(
    name: str,
    args: list[Expr],
    *,
    distinct: bool = False,
    filter: Expr | None = None,
    order_by: Sequence[SortKey] = (),
    position: int | None = None,
) -> AggregateCall:
    """An aggregate call. For WITHIN GROUP pass its sort keys as `order_by`, the direct arguments
    as `args`.

    Raises: UndefinedFunction (42883), DatatypeMismatch (42804), WrongObjectType (42809).
    """
    if name == "count" and not args:
        name = "count_star"
    if filter is not None:
        filter = _boolean(filter, "FILTER")
    definitions = registry.aggregates().get(name)
    if definitions is None:
        return _foreign_aggregate(name, args, distinct, filter, order_by, position)
    ordered = is_ordered_set(name)
    if ordered and not order_by:
        raise WrongObjectType(
            f"WITHIN GROUP is required for ordered-set aggregate {name}", position=position
        )
    order_by = tuple(replace(k, expr=_known(k.expr)) for k in order_by)
    sorted_args = [k.expr for k in order_by] if ordered else []
    found = _select(definitions, name, [*args, *sorted_args], position)
    coerced = _coerce_args(found, [*args, *sorted_args])
    type_ = result_type(found, tuple(a.type for a in coerced))
    if ordered:
        keys = zip(order_by, coerced[len(args) :], strict=True)
        order_by = tuple(replace(k, expr=e) for k, e in keys)
        coerced = coerced[: len(args)]
        _check_fractions(name, coerced, position)
    if distinct and not ordered and order_by and coerced:
        order_by = _distinct_order(args, coerced, order_by, position)
    if found.name in ("json_object_agg", "jsonb_object_agg"):
        key = Call(function="json_object_key", args=coerced[:1], type=coerced[0].type,
                   position=coerced[0].position)  # fmt: skip
        coerced = (key, *coerced[1:])
    return AggregateCall(
        function=found.name, args=coerced, type=type_, distinct=distinct, filter=filter,
        order_by=tuple(order_by),
    )  # fmt: skip


def _distinct_order(
    written: Sequence[Expr],
    coerced: Sequence[Expr],
    order_by: Sequence[SortKey],
    position: int | None,
) -> tuple[SortKey, ...]:
    """The sort keys, each replaced by the argument it names: by what is written, not as coerced."""
    from streamsql.core.errors import InvalidColumnReference

    found = []
    for key in order_by:
        same = [c for w, c in zip(written, coerced, strict=True) if key.expr in (w, _known(w))]
        if not same:
            raise InvalidColumnReference(
                "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list",
                position=position,
            )
        found.append(replace(key, expr=same[0]))
    return tuple(found)


def _check_fractions(name: str, direct: tuple[Expr, ...], position: int | None) -> None:
    """The fractions of a percentile: constants between 0 and 1."""
    for arg in direct:
        if any(isinstance(e, ColumnRef | OuterRef) for e in walk(arg)):
            raise FeatureNotSupported(
                f"the fraction of {name} must be a constant",
                position=position,
                hint="Compute each fraction in a column of its own, or use FILTER.",
            )
        given = arg.value if isinstance(arg, Literal) else None
        for fraction in given if isinstance(given, tuple | list) else [given]:
            if isinstance(fraction, float) and not 0 <= fraction <= 1:
                raise NumericValueOutOfRange(
                    f"percentile value {fraction:g} is not between 0 and 1",
                    position=arg.position if arg.position is not None else position,
                )


def _known(expr: Expr) -> Expr:
    return coerce(expr, TEXT) if expr.type.kind is Kind.UNKNOWN else expr


def _boolean(expr: Expr, what: str) -> Expr:
    try:
        return coerce(expr, BOOLEAN)
    except DatatypeMismatch:
        raise DatatypeMismatch(
            f"argument of {what} must be type boolean, not type {expr.type}", position=expr.position
        ) from None


# --- windows ------------------------------------------------------------------------------------
def is_window(name: str) -> bool:
    """Whether the name is a window-only function (row_number, lag, …); aggregates are not."""
    return name in registry.windows()


def resolve_window(
    name: str,
    args: list[Expr],
    partition_by: Sequence[Expr] = (),
    order_by: Sequence[SortKey] = (),
    frame: Frame | None = None,
    *,
    distinct: bool = False,
    filter: Expr | None = None,
    ignore_nulls: bool = False,
    position: int | None = None,
) -> WindowCall:
    """An OVER call: a window function or any aggregate.

    Raises: UndefinedFunction (42883), WindowingError (42P20), FeatureNotSupported (0A000).
    """
    partition = tuple(_known(e) for e in partition_by)
    keys = tuple(replace(k, expr=_known(k.expr)) for k in order_by)
    if distinct:
        raise FeatureNotSupported(
            "DISTINCT is not implemented for window functions",
            position=position,
            hint="Aggregate DISTINCT rows in a subquery first.",
        )
    definitions = registry.windows().get(name)
    if definitions is None:
        call = resolve_aggregate(name, args, filter=filter, position=position)
        return WindowCall(
            function=call.function, args=call.args, type=call.type, partition_by=partition,
            order_by=keys, frame=frame, filter=call.filter, ignore_nulls=ignore_nulls,
        )  # fmt: skip
    if filter is not None:
        raise FeatureNotSupported(
            "FILTER is not implemented for non-aggregate window functions",
            position=position,
            hint="Filter the rows in a subquery, or put the condition into PARTITION BY.",
        )
    found = _select(definitions, name, args, position)
    coerced = _coerce_args(found, args)
    type_ = result_type(found, tuple(a.type for a in coerced))
    _check_count(found.name, coerced, position)
    if frame is not None and frame.mode == "groups" and not keys:
        raise WindowingError("GROUPS mode requires an ORDER BY clause", position=position)
    return WindowCall(
        function=found.name, args=coerced, type=type_, partition_by=partition, order_by=keys,
        frame=frame, ignore_nulls=ignore_nulls,
    )  # fmt: skip


def _check_count(name: str, args: tuple[Expr, ...], position: int | None) -> None:
    """The count of ntile() and nth_value(): at least 1, or NULL."""
    errors = {"ntile": InvalidArgumentForNtile, "nth_value": InvalidArgumentForNthValue}
    given = args[-1] if name in errors else None
    if isinstance(given, Literal) and given.value is not None and given.value <= 0:
        at = given.position if given.position is not None else position
        raise errors[name](f"argument of {name} must be greater than zero", position=at)


# --- set-returning ------------------------------------------------------------------------------
def is_set_returning(name: str) -> bool:
    """Whether the function returns rows (unnest, generate_series, …)."""
    return name in registry.set_returning()


def resolve_set_returning(
    name: str, args: list[Expr], position: int | None = None
) -> tuple[str, tuple[Expr, ...], Schema]:
    """(registry name, coerced arguments, output columns) for a TableFunction node. Raises:
    42883."""
    definitions = registry.set_returning().get(name, ())
    found = _select(definitions, name, args, position)
    coerced = _coerce_args(found, args)
    return found.name, coerced, found.schema(tuple(a.type for a in coerced))


def set_returning_schema(name: str, args: list[Expr]) -> Schema:
    """The columns of a set-returning call. Raises: UndefinedFunction (42883)."""
    return resolve_set_returning(name, args)[2]


# --- what a call promises -----------------------------------------------------------------------
def call_definition(call: Call) -> FunctionDef | None:
    """The overload of a resolved Call, or None for DuckDB's own functions."""
    if call.function.startswith("duckdb:"):
        return None
    args = call.args[:2] if call.function == "in" else call.args  # all are of one type
    return registry.definition_of(call.function, tuple(a.type for a in args))


def volatility(expr: Expr) -> Volatility:
    """The worst volatility in the expression (subquery plans are not looked into)."""
    order = (Volatility.IMMUTABLE, Volatility.STABLE, Volatility.VOLATILE)
    worst = 0
    for node in walk(expr):
        if isinstance(node, Call):
            definition = call_definition(node)
            own = _foreign_volatility(node) if definition is None else definition.volatility
            worst = max(worst, order.index(own))
    return order[worst]


def can_fail(expr: Expr) -> bool:
    """Whether evaluating the expression may raise for some row."""
    return any(_node_can_fail(node) for node in walk(expr))


_OVERFLOW_ONLY = frozenset({"add", "subtract", "multiply", "negate", "abs"})


def needs_guard(expr: Expr) -> bool:
    """Whether a condition before the expression may be meant to keep rows away from it: it can fail
    otherwise than by overflow (division, casts, subscripts of text …). In SQL such an expression is
    written behind CASE; overflow alone is not worth hiding a filter from DuckDB's optimizer."""
    return any(
        _node_can_fail(node)
        for node in walk(expr)
        if not (isinstance(node, Call) and node.function in _OVERFLOW_ONLY)
    )


def _node_can_fail(node: Expr) -> bool:
    if isinstance(node, Literal | ColumnRef):  # there may be very many
        return False
    from streamsql.functions.cast_table import cast_can_fail
    from streamsql.functions.expressions import Subquery

    if isinstance(node, Cast):
        return not node.try_ and cast_can_fail(node.arg.type, node.type)
    if isinstance(node, Call):
        definition = call_definition(node)
        return definition is None or definition.can_fail
    return isinstance(node, Subquery)


# --- DuckDB's own functions ---------------------------------------------------------------------
def _foreign_kind(name: str) -> str | None:
    from streamsql.functions import foreign

    return foreign.kind(name)


def _foreign_call(name: str, args: list[Expr], position: int | None) -> Expr:
    from streamsql.functions import foreign

    known = tuple(_known(a) for a in args)
    types = tuple(a.type for a in known)
    if foreign.kind(name) != "scalar":
        raise undefined(name, [a.type for a in args], position)
    type_ = foreign.result_type(name, types)
    if type_ is None:
        raise undefined(name, [a.type for a in args], position)
    return Call(function=f"duckdb:{name}", args=known, type=type_, position=position)


def _foreign_aggregate(
    name: str,
    args: list[Expr],
    distinct: bool,
    filter: Expr | None,
    order_by: Sequence[SortKey],
    position: int | None,
) -> AggregateCall:
    from streamsql.functions import foreign

    known = tuple(_known(a) for a in args)
    types = tuple(a.type for a in known)
    type_ = foreign.result_type(name, types) if foreign.kind(name) == "aggregate" else None
    if type_ is None:
        raise undefined(name, [a.type for a in args], position)
    return AggregateCall(
        function=f"duckdb:{name}", args=known, type=type_, distinct=distinct, filter=filter,
        order_by=tuple(replace(k, expr=_known(k.expr)) for k in order_by),
    )  # fmt: skip


def _foreign_volatility(call: Call) -> Volatility:
    from streamsql.functions import foreign

    return foreign.volatility(call.function.removeprefix("duckdb:"))


__all__ = [
    "call_definition",
    "can_fail",
    "common_of",
    "is_aggregate",
    "is_ordered_set",
    "is_set_returning",
    "is_window",
    "needs_guard",
    "resolve_aggregate",
    "resolve_call",
    "resolve_set_returning",
    "resolve_window",
    "result_type",
    "set_returning_schema",
    "signature",
    "undefined",
    "volatility",
]
