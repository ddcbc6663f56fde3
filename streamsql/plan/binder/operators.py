"""Operators: AND OR NOT, comparison, arithmetic, patterns, IS, BETWEEN, IN lists, row
comparison."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from streamsql.core.errors import FeatureNotSupported, SqlSyntaxError
from streamsql.core.types import BOOLEAN, TEXT, Kind
from streamsql.dialect.nodes import PrefixOperator
from streamsql.functions.coerce import common_type
from streamsql.functions.expressions import Call, Expr, Literal, conjunction
from streamsql.functions.literals import number_literal
from streamsql.plan.binder.env import position_of
from streamsql.plan.binder.expressions import ExprBinder, Handler
from streamsql.plan.binder.values import bind_items, row_fields

SYMBOLS: dict[type[exp.Expression], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.DPipe: "||",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "#",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.Pow: "^",
}
COMPARISONS = {"=", "<>", "<", "<=", ">", ">="}


# --- logic --------------------------------------------------------------------------------------
def _flat(node: exp.Expression, class_: type[exp.Expression]) -> list[exp.Expression]:
    """The operands of a chain of ANDs or ORs, without recursion."""
    found: list[exp.Expression] = []
    stack = [node]
    while stack:
        n = stack.pop()
        if isinstance(n, exp.Paren) and isinstance(n.this, class_):
            n = n.this
        if isinstance(n, class_):
            stack += [n.expression, n.this]
        else:
            found.append(n)
    return found


def _and(binder: ExprBinder, node: exp.And) -> Expr:
    return _connect(binder, node, exp.And, "and")


def _or(binder: ExprBinder, node: exp.Or) -> Expr:
    return _connect(binder, node, exp.Or, "or")


def _connect(
    binder: ExprBinder, node: exp.Expression, class_: type[exp.Expression], name: str
) -> Expr:
    what = f"argument of {name.upper()}"
    args = [binder.boolean(binder.bind(n), what, position_of(n)) for n in _flat(node, class_)]
    return Call(function=name, args=tuple(args), type=BOOLEAN)


def _not(binder: ExprBinder, node: exp.Not) -> Expr:
    inner = node.this
    while isinstance(inner, exp.Paren):
        inner = inner.this
    negate = _NEGATIONS.get(type(inner))
    if negate is not None and (negate is not _is or node.meta.get("is_not")):
        return negate(binder, inner, True)
    arg = binder.boolean(binder.bind(node.this), "argument of NOT", position_of(node))
    return negated(arg)


def negated(expr: Expr) -> Expr:
    """NOT expr."""
    test = expr.function if isinstance(expr, Call) else ""
    if isinstance(expr, Call) and test in ("is_null", "is_true", "is_false"):
        return replace(expr, function=test.replace("is_", "is_not_", 1))
    return Call(function="not", args=(expr,), type=BOOLEAN)


# --- binary -------------------------------------------------------------------------------------
def _binary(binder: ExprBinder, node: exp.Binary) -> Expr:
    symbol = SYMBOLS[type(node)]
    return apply(binder, symbol, node.this, node.expression, position_of(node))


def _operator(binder: ExprBinder, node: exp.Operator) -> Expr:
    symbol = node.args["operator"]
    name = symbol if isinstance(symbol, str) else symbol.name
    return apply(binder, name, node.this, node.expression, position_of(node))


def apply(
    binder: ExprBinder,
    symbol: str,
    left: exp.Expression,
    right: exp.Expression,
    position: int | None,
) -> Expr:
    """left <symbol> right, where right may be ANY/ALL (…) and both may be rows."""
    if isinstance(right, exp.Any | exp.All):
        from streamsql.plan.binder.subqueries import bind_quantified

        return bind_quantified(binder, symbol, left, right, position)
    if symbol in COMPARISONS and row_items(left) is not None:
        if row_items(right) is not None:
            return _compare_rows(binder, symbol, left, right, position)
        if isinstance(right, exp.Subquery) and len(row_items(left) or []) > 1:
            from streamsql.plan.binder.subqueries import row_of_query

            lefts = bind_items(binder, row_items(left) or [])
            rights = row_of_query(binder, right, len(lefts), position)
            return compare_rows(binder, symbol, lefts, rights, position)
    return binder.call(symbol, [binder.bind(left), binder.bind(right)], position)


def row_items(node: exp.Expression) -> list[exp.Expression] | None:
    """The items of (a, b) or ROW(a, b); None for anything else."""
    while isinstance(node, exp.Paren):
        node = node.this
    return list(node.expressions) if isinstance(node, exp.Tuple) else None


def _compare_rows(
    binder: ExprBinder,
    symbol: str,
    left: exp.Expression,
    right: exp.Expression,
    position: int | None,
) -> Expr:
    lefts = bind_items(binder, row_items(left) or [])
    rights = bind_items(binder, row_items(right) or [])
    if len(lefts) != len(rights):
        raise SqlSyntaxError("unequal number of entries in row expressions", position=position)
    if not lefts:
        raise FeatureNotSupported(
            "cannot compare rows of zero length",
            position=position,
            hint="Such rows are always equal: leave the comparison out.",
        )
    return compare_rows(binder, symbol, lefts, rights, position)


def compare_rows(
    binder: ExprBinder,
    symbol: str,
    lefts: list[Expr],
    rights: list[Expr],
    position: int | None,
) -> Expr:
    """(l1, l2) <symbol> (r1, r2), written out by PostgreSQL's rules for NULLs."""
    pairs = list(zip(lefts, rights, strict=True))
    if symbol == "=":
        return conjunction([binder.call("=", [a, b], position) for a, b in pairs])
    if symbol == "<>":
        parts = tuple(binder.call("<>", [a, b], position) for a, b in pairs)
        return parts[0] if len(parts) == 1 else Call(function="or", args=parts, type=BOOLEAN)
    strict = symbol[0]
    a, b = pairs[-1]
    result = binder.call(symbol, [a, b], position)
    for a, b in reversed(pairs[:-1]):
        tie = Call(function="and", args=(binder.call("=", [a, b], position), result), type=BOOLEAN)
        result = Call(
            function="or", args=(binder.call(strict, [a, b], position), tie), type=BOOLEAN
        )
    return result


# --- unary --------------------------------------------------------------------------------------
def _neg(binder: ExprBinder, node: exp.Neg) -> Expr:
    inner = node.this
    if isinstance(inner, exp.Literal) and not inner.is_string:
        return _negative_literal(number_literal(str(inner.this), position_of(node)))
    return binder.call("-", [binder.bind(inner)], position_of(node))


def _negative_literal(literal: Literal) -> Expr:
    from streamsql.core.types import BIGINT, INTEGER

    value = -literal.value
    if literal.type.kind is Kind.BIGINT and value >= -(2**31):
        return Literal(value=value, type=INTEGER)
    if literal.type.kind is Kind.NUMERIC and value == -(2**63):
        return Literal(value=int(value), type=BIGINT)
    return Literal(value=value, type=literal.type)


def _bitwise_not(binder: ExprBinder, node: exp.BitwiseNot) -> Expr:
    return binder.call("~", [binder.bind(node.this)], position_of(node))


def _prefix(binder: ExprBinder, node: PrefixOperator) -> Expr:
    return binder.call(node.args["operator"], [binder.bind(node.this)], position_of(node))


# --- IS, BETWEEN, IN ----------------------------------------------------------------------------
def _is(binder: ExprBinder, node: exp.Is, negate: bool = False) -> Expr:
    position = position_of(node)
    value = node.expression
    items = row_items(node.this)
    if items is not None and isinstance(value, exp.Null):
        # a row is NULL if all its fields are, and NOT NULL if none is: the two are no opposites
        test = "is_not_null" if negate else "is_null"
        return conjunction([binder.call(test, [e], position) for e in bind_items(binder, items)])
    arg = binder.bind(node.this)
    if arg.type.kind is Kind.STRUCT and arg.type.fields and isinstance(value, exp.Null):
        test = "is_not_null" if negate else "is_null"
        return conjunction([binder.call(test, [e], position) for e in row_fields(arg)])
    if node.args.get("unknown"):
        arg = binder.boolean(arg, "argument of IS UNKNOWN")
    if isinstance(value, exp.Boolean):
        arg = binder.boolean(arg, "argument of IS TRUE" if value.this else "argument of IS FALSE")
        truth = "true" if value.this else "false"
        return binder.call(f"is_not_{truth}" if negate else f"is_{truth}", [arg], position)
    return binder.call("is_not_null" if negate else "is_null", [arg], position)


def _distinct_from(binder: ExprBinder, node: exp.NullSafeNEQ) -> Expr:
    return _null_safe(binder, node, "is_distinct_from")


def _not_distinct_from(binder: ExprBinder, node: exp.NullSafeEQ) -> Expr:
    return _null_safe(binder, node, "is_not_distinct_from")


def _null_safe(binder: ExprBinder, node: exp.Binary, name: str) -> Expr:
    lefts, rights = row_items(node.this), row_items(node.expression)
    position = position_of(node)
    if lefts is not None and rights is not None and len(lefts) == len(rights):
        parts = [
            binder.call(name, [binder.bind(a), binder.bind(b)], position)
            for a, b in zip(lefts, rights, strict=True)
        ]
        if name == "is_not_distinct_from":
            return conjunction(parts)
        return Call(function="or", args=tuple(parts), type=BOOLEAN)
    return binder.call(name, [binder.bind(node.this), binder.bind(node.expression)], position)


def _between(binder: ExprBinder, node: exp.Between, negate: bool = False) -> Expr:
    position = position_of(node)
    value = binder.bind(node.this)
    low, high = binder.bind(node.args["low"]), binder.bind(node.args["high"])
    result = _range(binder, value, low, high, position)
    if node.args.get("symmetric"):
        other = _range(binder, value, high, low, position)
        result = Call(function="or", args=(result, other), type=BOOLEAN)
    return negated(result) if negate else result


def _range(binder: ExprBinder, value: Expr, low: Expr, high: Expr, position: int | None) -> Expr:
    above = binder.call(">=", [value, low], position)
    below = binder.call("<=", [value, high], position)
    return Call(function="and", args=(above, below), type=BOOLEAN)


def _in(binder: ExprBinder, node: exp.In, negate: bool = False) -> Expr:
    query = node.args.get("query")
    if query is not None:
        from streamsql.plan.binder.subqueries import bind_in_query

        return bind_in_query(binder, node.this, query, negate, position_of(node))
    items = row_items(node.this)
    position = position_of(node)
    if items is not None:
        return _rows_in(binder, items, node.expressions, negate, position)
    value = binder.bind(node.this)
    members = binder.bind_all(node.expressions)
    result = in_list(binder, value, members, position)
    return negated(result) if negate else result


def in_list(binder: ExprBinder, value: Expr, members: list[Expr], position: int | None) -> Expr:
    """value IN (members): one call where all share a type, else a chain of equalities."""
    types = [value.type, *(m.type for m in members)]
    if len(members) > 1 and _one_family(types):
        target = common_type(types, what="IN")
        args = [binder.coerce(e, target) for e in (value, *members)]
        return Call(function="in", args=tuple(args), type=BOOLEAN, position=position)
    parts = tuple(binder.call("=", [value, m], position) for m in members)
    return parts[0] if len(parts) == 1 else Call(function="or", args=parts, type=BOOLEAN)


def _one_family(types: list) -> bool:  # type: ignore[type-arg]
    """Integers with integers, or one and the same kind: where IN can not change a comparison."""
    known = [t for t in types if t.kind is not Kind.UNKNOWN]
    return all(t.is_integer for t in known) or len({t.kind for t in known}) == 1


def _rows_in(
    binder: ExprBinder,
    items: list[exp.Expression],
    members: list[exp.Expression],
    negate: bool,
    position: int | None,
) -> Expr:
    lefts = binder.bind_all(items)
    parts = []
    for member in members:
        rights = row_items(member)
        if rights is None or len(rights) != len(lefts):
            raise SqlSyntaxError(
                "unequal number of entries in row expressions", position=position_of(member)
            )
        parts.append(compare_rows(binder, "=", lefts, binder.bind_all(rights), position))
    result = parts[0] if len(parts) == 1 else Call(function="or", args=tuple(parts), type=BOOLEAN)
    return negated(result) if negate else result


# --- patterns and time --------------------------------------------------------------------------
def _pattern(binder: ExprBinder, node: exp.Expression, negate: bool = False) -> Expr:
    escape = None
    position = position_of(node)
    if isinstance(node, exp.Escape):
        escape, node = node.expression, node.this
    name = {exp.Like: "like", exp.ILike: "ilike", exp.SimilarTo: "similar_to"}[type(node)]
    if isinstance(node.expression, exp.Any | exp.All):
        result = apply(binder, name, node.this, node.expression, position)
        return negated(result) if negate else result
    args = [binder.bind(node.this), binder.bind(node.expression)]
    if escape is not None:
        args.append(binder.coerce(binder.bind(escape), TEXT))
    result = binder.call(name, args, position)
    return negated(result) if negate else result


def _at_time_zone(binder: ExprBinder, node: exp.AtTimeZone) -> Expr:
    zone = binder.bind(node.args["zone"])
    return binder.call("timezone", [zone, binder.bind(node.this)], position_of(node))


def _overlaps(binder: ExprBinder, node: exp.Overlaps) -> Expr:
    lefts, rights = row_items(node.this), row_items(node.expression)
    if lefts is None or rights is None or len(lefts) != 2 or len(rights) != 2:
        raise SqlSyntaxError("wrong number of parameters on OVERLAPS expression")
    return binder.call("overlaps", binder.bind_all([*lefts, *rights]), position_of(node))


HANDLERS: dict[type[exp.Expression], Handler] = {
    **dict.fromkeys(SYMBOLS, _binary),
    exp.And: _and,
    exp.Or: _or,
    exp.Not: _not,
    exp.Operator: _operator,
    exp.Neg: _neg,
    exp.BitwiseNot: _bitwise_not,
    PrefixOperator: _prefix,
    exp.Is: _is,
    exp.NullSafeNEQ: _distinct_from,
    exp.NullSafeEQ: _not_distinct_from,
    exp.Between: _between,
    exp.In: _in,
    exp.Like: _pattern,
    exp.ILike: _pattern,
    exp.SimilarTo: _pattern,
    exp.Escape: _pattern,
    exp.AtTimeZone: _at_time_zone,
    exp.Overlaps: _overlaps,
}
_NEGATIONS: dict[type[exp.Expression], Callable[..., Expr]] = {
    exp.Is: _is,
    exp.Between: _between,
    exp.In: _in,
    exp.Like: _pattern,
    exp.ILike: _pattern,
    exp.SimilarTo: _pattern,
    exp.Escape: _pattern,
}
