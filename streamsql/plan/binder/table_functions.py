"""Functions in FROM: unnest, generate_series, …; WITH ORDINALITY, ROWS FROM, several arrays at
once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from streamsql.core.errors import (
    FeatureNotSupported,
    InvalidColumnReference,
    WrongObjectType,
)
from streamsql.core.schema import Column, Schema
from streamsql.core.types import BIGINT, INTEGER, array_of
from streamsql.dialect.grammar.time_windows import misspelt
from streamsql.functions.coerce import coerce
from streamsql.functions.expressions import (
    TRUE,
    Expr,
    Literal,
    Subquery,
    column,
)
from streamsql.functions.registry import functions
from streamsql.functions.resolve import (
    is_aggregate,
    is_set_returning,
    is_window,
    resolve_call,
    resolve_set_returning,
)
from streamsql.plan.binder.arguments import bind_arguments
from streamsql.plan.binder.calls import TYPE_FUNCTIONS, CallSyntax, read_call
from streamsql.plan.binder.env import Env, FromItem, position_of
from streamsql.plan.binder.expressions import ExprBinder
from streamsql.plan.binder.joins import JoinSyntax, combine
from streamsql.plan.binder.outputs import identity
from streamsql.plan.binder.scope import NamedColumn, NamedRelation, Namespace
from streamsql.plan.nodes import (
    Filter,
    LogicalPlan,
    Project,
    TableFunction,
    Values,
)
from streamsql.plan.visit import push_down_levels, row_columns

ONE_ROW = Values(schema=Schema(()), rows=((),))


@dataclass(frozen=True)
class FunctionItem:
    """A bound function of FROM: `function` over `args` of the left row gives `columns`.

    single: f(x) with one column, whose name is then the alias. array_args: where several functions
    run side by side, each one as an array (then function is the zip).
    """

    calls: tuple[tuple[str, tuple[Expr, ...], Schema], ...]
    with_ordinality: bool


def is_function_item(node: exp.Expression) -> bool:
    """Is the FROM item a function call or ROWS FROM (…)?"""
    if not isinstance(node, exp.Table):
        return False
    return bool(node.args.get("rows_from")) or not isinstance(node.this, exp.Identifier)


def bind_function_item(node: exp.Expression, env: Env, left: FromItem | None) -> FromItem:
    """left, f(…): the function runs for each row of left."""
    source = left if left is not None else FromItem(ONE_ROW, Namespace(0))
    item = _bind(node, env, source.namespace)
    plan = _apply(source.plan, item, outer=False)
    return FromItem(plan, _names(node, item, source.namespace))


def join_function(
    node: exp.Expression,
    env: Env,
    left: FromItem,
    syntax: JoinSyntax,
    start: int,
    first_column: int,
) -> FromItem:
    """left JOIN f(…) ON …."""
    item = _bind(node, env, left.namespace)
    uses_left = any(row_columns(a) for _, args, _ in item.calls for a in args)
    plain = not syntax.natural and not syntax.using
    if plain and syntax.kind in ("inner", "cross", "left"):
        names = _names(node, item, left.namespace)
        condition = None
        if syntax.on is not None:
            group = Namespace(names.width, names.relations[start:], names.columns[first_column:])
            condition = ExprBinder(env.scope(group), env.statement, clause="JOIN/ON").predicate(
                syntax.on
            )
        always = condition is None or condition == TRUE
        if syntax.kind != "left":
            plan = _apply(left.plan, item, outer=False)
            if not always and condition is not None:
                plan = Filter(schema=plan.schema, input=plan, predicate=condition)
            return FromItem(plan, names)
        if always:
            return FromItem(_apply(left.plan, item, outer=True), names)
    if uses_left and syntax.kind in ("right", "full"):
        raise InvalidColumnReference(
            f"a function on the nullable side of a {syntax.kind.upper()} JOIN can not refer to "
            "the other side",
            position=position_of(node),
        )
    right = _standalone(node, item, uses_left)
    return combine(left, right, syntax, env, start, first_column, lateral=uses_left)


def _standalone(node: exp.Expression, item: FunctionItem, uses_left: bool) -> FromItem:
    """The function over one row of its own; left's columns appear as outer references."""
    calls = item.calls
    if uses_left:
        calls = tuple((f, tuple(push_down_levels(a, 1) for a in args), s) for f, args, s in calls)
    moved = replace(item, calls=calls)
    return FromItem(_apply(ONE_ROW, moved, outer=False), _names(node, moved, Namespace(0)))


# --- binding ------------------------------------------------------------------------------------
def _bind(node: exp.Expression, env: Env, namespace: Namespace) -> FunctionItem:
    assert isinstance(node, exp.Table)
    binder = ExprBinder(env.lateral_scope(namespace), env.statement, clause="FROM")
    nodes = [t.this for t in node.args.get("rows_from") or [node]]
    calls: list[tuple[str, tuple[Expr, ...], Schema]] = []
    for call_node in nodes:
        calls += _bind_call(binder, read_call(call_node))
    _refuse_definitions(node)
    return FunctionItem(tuple(calls), bool(node.args.get("ordinality")))


def _refuse_definitions(node: exp.Table) -> None:
    alias = node.args.get("alias")
    columns = alias.args.get("columns") or [] if alias is not None else []
    if any(isinstance(c, exp.ColumnDef) for c in columns):
        raise FeatureNotSupported(
            "a column definition list is not supported",
            position=position_of(node),
            hint="Extract the fields with ->> and cast them.",
        )


def _bind_call(binder: ExprBinder, call: CallSyntax) -> list[tuple[str, tuple[Expr, ...], Schema]]:
    name, position = call.name, call.position
    if is_aggregate(name):
        from streamsql.plan.binder.aggregates import refuse_aggregate

        raise refuse_aggregate(replace(binder, clause="functions in FROM"), position)
    if is_window(name):
        raise WrongObjectType(f"window function {name} requires an OVER clause", position=position)
    if not (is_set_returning(name) or name in functions() or name in TYPE_FUNCTIONS):
        window = misspelt(name, position)
        if window is not None:  # before its arguments, which are a relation and its columns
            raise window
    args = bind_arguments(binder, name, call.args, position)
    if name == "unnest" and len(args) > 1:
        return [resolve_set_returning(name, [a], position) for a in args]
    if is_set_returning(name):
        return [resolve_set_returning(name, args, position)]
    value = binder.call(name, args, position)
    schema = Schema((Column(name, value.type),))
    return [("scalar", (value,), schema)]


def _names(node: exp.Expression, item: FunctionItem, left: Namespace) -> Namespace:
    """left's names and the function's behind them."""
    alias = node.args.get("alias")
    name = alias.name if alias is not None and alias.name else None
    columns = [c for _, _, schema in item.calls for c in schema]
    if name is not None and len(columns) == 1:
        columns = [Column(name, columns[0].type)]
    if item.with_ordinality:
        columns.append(Column("ordinality", BIGINT, False))
    given = [c.name for c in alias.args.get("columns") or []] if alias is not None else []
    label = name or item.calls[0][2][0].name
    if len(given) > len(columns):
        raise InvalidColumnReference(
            f'table "{label}" has {len(columns)} columns available but {len(given)} columns '
            "specified",
            position=position_of(node),
        )
    for i, new in enumerate(given):
        columns[i] = Column(new, columns[i].type, columns[i].nullable)
    named = tuple(NamedColumn(c.name, column(i, c.type, c.name)) for i, c in enumerate(columns))
    relation = NamedRelation(label, named, is_function=True)
    own = Namespace(len(columns), [relation], list(named))
    return left.joined(own, position_of(node))


# --- plans --------------------------------------------------------------------------------------
def _apply(source: LogicalPlan, item: FunctionItem, *, outer: bool) -> LogicalPlan:
    """The function for each row of `source`; its columns behind the row's."""
    if len(item.calls) > 1:
        return zip_functions(source, item.calls, ordinality=item.with_ordinality, outer=outer)
    function, args, schema = item.calls[0]
    if function == "scalar":
        return _scalar(source, args[0], schema, item.with_ordinality)
    return table_function(
        source, function, args, schema, ordinality=item.with_ordinality, outer=outer
    )


def table_function(
    source: LogicalPlan,
    function: str,
    args: Sequence[Expr],
    schema: Schema,
    *,
    ordinality: bool = False,
    outer: bool = False,
) -> TableFunction:
    """A TableFunction node with its schema."""
    columns = schema.columns
    if ordinality:
        columns += (Column("ordinality", BIGINT, outer),)
    return TableFunction(
        schema=Schema(source.schema.columns + columns),
        input=source,
        function=function,
        args=tuple(args),
        with_ordinality=ordinality,
        outer=outer,
    )


def _scalar(source: LogicalPlan, value: Expr, schema: Schema, ordinality: bool) -> LogicalPlan:
    """FROM lower('A') AS x: one row with the value."""
    exprs = [*identity(source.schema), value]
    columns = source.schema.columns + schema.columns
    if ordinality:
        exprs.append(Literal(value=1, type=BIGINT))
        columns += (Column("ordinality", BIGINT, False),)
    return Project(schema=Schema(columns), input=source, exprs=tuple(exprs))


def zip_functions(
    source: LogicalPlan,
    calls: Sequence[tuple[str, tuple[Expr, ...], Schema]],
    *,
    ordinality: bool = False,
    outer: bool = False,
) -> LogicalPlan:
    """Several functions side by side, the shorter ones filled with NULL.

    Each becomes an array; the longest one's subscripts are counted through.
    """
    width = len(source.schema)
    arrays = [_as_array(call, source) for call in calls]
    columns = source.schema.columns + tuple(Column("", a.type) for a in arrays)
    below = Project(schema=Schema(columns), input=source, exprs=(*identity(source.schema), *arrays))
    refs = [column(width + i, a.type) for i, a in enumerate(arrays)]
    zero = Literal(value=0, type=INTEGER)
    lengths = [
        resolve_call("coalesce", [_integer(resolve_call("cardinality", [r])), zero]) for r in refs
    ]
    longest = resolve_call("greatest", lengths)
    one = Literal(value=1, type=INTEGER)
    name, args, schema = resolve_set_returning("generate_series", [one, longest])
    counted = table_function(below, name, args, schema, outer=outer)
    number = column(len(counted.schema) - 1, schema[0].type)
    exprs: list[Expr] = [*identity(source.schema)]
    exprs += [resolve_call("subscript", [r, number]) for r in refs]
    outputs = [c for _, _, s in calls for c in s]
    if ordinality:
        exprs.append(coerce(number, BIGINT))
        outputs.append(Column("ordinality", BIGINT))
    return Project(
        schema=Schema(source.schema.columns + tuple(outputs)), input=counted, exprs=tuple(exprs)
    )


def _integer(expr: Expr) -> Expr:
    return expr if expr.type == INTEGER else coerce(expr, INTEGER, "assignment")


def _as_array(call: tuple[str, tuple[Expr, ...], Schema], source: LogicalPlan) -> Expr:
    function, args, schema = call
    if function == "unnest":
        return args[0]
    if len(schema) != 1:
        raise FeatureNotSupported(
            f"function {function}() with several columns can not run beside another one",
            hint="Join it by WITH ORDINALITY.",
        )
    inner = tuple(push_down_levels(a, 1) for a in args)
    if function == "scalar":
        return resolve_call("array", [args[0]])
    whole = table_function(ONE_ROW, function, inner, schema)
    return Subquery(kind="array", plan=whole, type=array_of(schema[0].type))
