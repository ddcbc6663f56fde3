"""Function calls: which of scalar, aggregate, window and set-returning a name is, and its
arguments."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from streamsql.core.errors import (
    FeatureNotSupported,
    SqlSyntaxError,
    UndefinedFunction,
    WrongObjectType,
)
from streamsql.core.types import (
    BIGINT,
    BOOLEAN,
    BYTEA,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    JSON,
    JSONB,
    NUMERIC,
    REAL,
    SMALLINT,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    Kind,
    SqlType,
    struct_of,
)
from streamsql.functions.casts import Context, can_cast
from streamsql.functions.expressions import Call, Expr
from streamsql.functions.resolve import (
    is_aggregate,
    is_set_returning,
    is_window,
    resolve_set_returning,
    undefined,
    volatility,
)
from streamsql.plan.binder.arguments import bind_arguments, bind_variadic
from streamsql.plan.binder.context import NOW_REFUSED, BindContext
from streamsql.plan.binder.env import position_of
from streamsql.plan.binder.expressions import ExprBinder, Handler
from streamsql.plan.binder.hypothetical import HYPOTHETICAL, bind_hypothetical
from streamsql.plan.binder.placeholders import GroupingExpr, SetExpr

TYPE_FUNCTIONS: dict[str, SqlType] = {
    "bool": BOOLEAN, "int2": SMALLINT, "int4": INTEGER, "int8": BIGINT, "float4": REAL,
    "float8": DOUBLE, "numeric": NUMERIC, "text": TEXT, "varchar": SqlType(Kind.VARCHAR),
    "bytea": BYTEA, "date": DATE, "time": TIME, "timestamp": TIMESTAMP, "timestamptz": TIMESTAMPTZ,
    "interval": INTERVAL, "uuid": UUID, "json": JSON, "jsonb": JSONB,
}  # fmt: skip
"""Types whose names are functions, too: int4(5.5) is a cast."""
NO_SETS_IN = frozenset({"coalesce", "nullif", "greatest", "least"})
"""Functions that PostgreSQL evaluates like CASE."""


@dataclass(frozen=True)
class CallSyntax:
    """A call as written. name: folded. star: f(*). order_by: inside the parentheses."""

    name: str
    args: tuple[exp.Expression, ...]
    schema: str | None = None
    star: bool = False
    distinct: bool = False
    order_by: tuple[exp.Ordered, ...] = ()
    within_group: tuple[exp.Ordered, ...] = ()
    filter: exp.Expression | None = None
    ignore_nulls: bool = False
    position: int | None = None


def read_call(node: exp.Expression) -> CallSyntax:
    """Unwrap FILTER, WITHIN GROUP, IGNORE NULLS and the argument list of a call."""
    if isinstance(node, exp.Filter):
        return replace(read_call(node.this), filter=node.expression.this)
    if isinstance(node, exp.WithinGroup):
        return replace(read_call(node.this), within_group=tuple(node.expression.expressions))
    if isinstance(node, exp.IgnoreNulls):
        return replace(read_call(node.this), ignore_nulls=True)
    if isinstance(node, exp.RespectNulls):
        return read_call(node.this)
    if not isinstance(node, exp.Anonymous):
        raise FeatureNotSupported(
            f"{node.key.upper()} is not supported here", position=position_of(node)
        )
    args = list(node.expressions)
    star = len(args) == 1 and isinstance(args[0], exp.Star)
    distinct = len(args) == 1 and isinstance(args[0], exp.Distinct)
    if distinct:
        args = list(args[0].expressions)
    order_by: tuple[exp.Ordered, ...] = ()
    if args and isinstance(args[-1], exp.Order):
        order_by = tuple(args[-1].expressions)
        args[-1] = args[-1].this
    return CallSyntax(
        name=node.name,
        args=() if star else tuple(args),
        schema=node.meta.get("schema"),
        star=star,
        distinct=distinct,
        order_by=order_by,
        position=position_of(node),
    )


def _call(binder: ExprBinder, node: exp.Expression) -> Expr:
    return bind_call(binder, read_call(node))


def bind_call(binder: ExprBinder, call: CallSyntax) -> Expr:
    """A call that has no OVER."""
    from streamsql.plan.binder.aggregates import bind_aggregate

    name = call.name
    if call.schema not in (None, "pg_catalog"):
        raise UndefinedFunction(
            f"function {call.schema}.{name}() does not exist", position=call.position
        )
    if name == "grouping":
        return _grouping(binder, call)
    if is_aggregate(name):
        return bind_aggregate(binder, call)
    if name in HYPOTHETICAL and (call.args or call.within_group):
        return bind_hypothetical(binder, call)
    _refuse_aggregate_syntax(call)
    if is_window(name):
        raise WrongObjectType(
            f"window function {name} requires an OVER clause",
            position=call.position,
            hint=f"Write {name}(…) OVER (PARTITION BY … ORDER BY …).",
        )
    if is_set_returning(name):
        return _set_returning(binder, call)
    inner = binder.without_sets(name.upper()) if name in NO_SETS_IN else binder
    if call.args and isinstance(call.args[-1], exp.Variadic):
        result = bind_variadic(inner, name, call.args, call.position)
    else:
        args = bind_arguments(inner, name, call.args, call.position)
        result = _by_type_name(binder, name, args, call.position) or binder.call(
            name, args, call.position
        )
    check_volatility(binder, result, name, call.position)
    return result


def _by_type_name(
    binder: ExprBinder, name: str, args: list[Expr], position: int | None
) -> Expr | None:
    """int4(x), text(x), date(x): a cast written as a call of the type's name."""
    target = TYPE_FUNCTIONS.get(name)
    if target is None or len(args) != 1:
        return None
    if not can_cast(args[0].type, target, Context.EXPLICIT):
        raise undefined(name, [args[0].type], position)
    return binder.coerce(args[0], target, "explicit")


def _refuse_aggregate_syntax(call: CallSyntax) -> None:
    name, position = call.name, call.position
    if call.star:
        raise UndefinedFunction(
            f"function {name}() does not exist",
            position=position,
            hint=f"{name} is not an aggregate function, so it can not be called with (*).",
        )
    reasons = (
        (call.distinct, f"DISTINCT specified, but {name} is not an aggregate function"),
        (call.order_by, f"ORDER BY specified, but {name} is not an aggregate function"),
        (call.within_group, f"WITHIN GROUP specified, but {name} is not an aggregate function"),
        (call.filter, f"FILTER specified, but {name} is not an aggregate function"),
    )
    for given, message in reasons:
        if given:
            raise WrongObjectType(message, position=position)


def check_volatility(binder: ExprBinder, expr: Expr, name: str, position: int | None) -> None:
    """Refuse random() and friends in a view, now() where it has no meaning."""
    context = binder.statement.context
    if context.volatile_allowed and context.now != NOW_REFUSED:
        return
    if isinstance(expr, Call):
        expr = Call(function=expr.function, args=expr.args, type=expr.type)
    level = volatility(expr).value  # current_date is a cast of now()
    if level == "volatile" and not context.volatile_allowed:
        raise FeatureNotSupported(
            f"function {name}() is volatile and can not be used in a view",
            position=position,
            hint="A view's content must follow from its input: "
            "compute the value when the row is inserted, and store it in a column.",
        )
    if level == "stable" and context.now == NOW_REFUSED:
        raise _stable_refused(context, name, position)


def _stable_refused(context: BindContext, name: str, position: int | None) -> FeatureNotSupported:
    return FeatureNotSupported(
        f"function {name}() is not immutable and can not be used here",
        position=position,
        hint="Use a column of the row instead.",
    )


def _grouping(binder: ExprBinder, call: CallSyntax) -> Expr:
    from streamsql.plan.binder.aggregates import refuse_aggregate

    if not binder.aggregates:
        raise refuse_aggregate(binder, call.position, "grouping operations")
    if len(call.args) > 31:
        raise SqlSyntaxError("GROUPING must have fewer than 32 arguments", position=call.position)
    args = binder.within("grouping").bind_all(list(call.args))
    return GroupingExpr(args=tuple(args), type=INTEGER, position=call.position)


def _set_returning(binder: ExprBinder, call: CallSyntax) -> Expr:
    if not binder.sets:
        raise _refuse_set(binder, call)
    args = bind_arguments(binder, call.name, call.args, call.position)
    name, bound, schema = resolve_set_returning(call.name, args, call.position)
    if len(schema) == 1:
        type_ = schema[0].type
    else:
        type_ = struct_of(tuple((c.name, c.type) for c in schema))
    return SetExpr(function=name, args=bound, schema=schema, type=type_, position=call.position)


def _refuse_set(binder: ExprBinder, call: CallSyntax) -> FeatureNotSupported:
    hint = "You might be able to move the set-returning function into a LATERAL FROM item."
    match binder.inside:
        case "aggregate":
            text = "aggregate function calls cannot contain set-returning function calls"
        case "window":
            text = "window function calls cannot contain set-returning function calls"
        case None:
            text = f"set-returning functions are not allowed in {binder.clause}"
        case construct:
            text = f"set-returning functions are not allowed in {construct}"
    return FeatureNotSupported(text, position=call.position, hint=hint)


HANDLERS: dict[type[exp.Expression], Handler] = {
    exp.Anonymous: _call,
    exp.Filter: _call,
    exp.WithinGroup: _call,
    exp.IgnoreNulls: _call,
    exp.RespectNulls: _call,
}
