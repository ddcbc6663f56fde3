"""The binder's doors: queries, single expressions, the source of an INSERT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from streamsql.core.errors import SqlSyntaxError
from streamsql.core.schema import Column, Schema
from streamsql.core.types import TEXT, Kind, SqlType
from streamsql.functions.expressions import Expr, column, transform
from streamsql.plan.binder.context import BindContext, Bound, Statement
from streamsql.plan.binder.env import Env
from streamsql.plan.binder.expressions import ExprBinder
from streamsql.plan.binder.outputs import known_outputs, typed_outputs
from streamsql.plan.binder.parameters import settle, settle_expression
from streamsql.plan.binder.query import bind_query_tree
from streamsql.plan.binder.scope import NamedColumn, NamedRelation, Namespace
from streamsql.plan.depth import limited_depth
from streamsql.plan.nodes import BoundQuery, LogicalPlan, Values


@limited_depth
def bind_query(tree: Any, context: BindContext) -> BoundQuery:
    """Bind a SELECT, VALUES, TABLE, WITH or set operation.

    Raises: StatementError with SQLSTATE, position and hint. `context.parameter_types` is completed.
    """
    statement = Statement(context)
    bound = bind_query_tree(tree, Env(statement))
    plan = settle(known_outputs(bound.plan), context)
    return _result(plan, bound, statement)


def _result(plan: LogicalPlan, bound: Bound, statement: Statement) -> BoundQuery:
    return BoundQuery(
        plan=plan,
        parameter_types=tuple(t or TEXT for t in statement.context.parameter_types or ()),
        relations=frozenset(statement.relations),
        origins=bound.origins,
        notices=tuple(statement.notices),
    )


@limited_depth
def bind_expression(
    tree: Any,
    schema: Schema,
    context: BindContext,
    relation_name: str | None = None,
    *,
    target: SqlType | None = None,
    coercion: str = "assignment",
    clause: str = "expression",
    extra: Sequence[tuple[str, Schema]] = (),
) -> Expr:
    """A scalar expression over one row: a default, a generated column, a SET or RETURNING item.

    relation_name: qualifier of the columns. extra: further relations whose columns follow the first
    one's in the row (`excluded` of ON CONFLICT); those need their qualifier. target: type to coerce
    to.
    """
    statement = Statement(context)
    namespace = _row_namespace(schema, relation_name, extra)
    binder = ExprBinder(Env(statement).scope(namespace), statement, clause=clause)
    expr = binder.bind(tree)
    if target is not None:
        expr = binder.coerce(expr, target, coercion)
    elif expr.type.kind is Kind.UNKNOWN:
        expr = binder.coerce(expr, TEXT)
    return _settled(expr, context)


@limited_depth
def bind_predicate(
    tree: Any,
    schema: Schema,
    context: BindContext,
    relation_name: str | None = None,
    *,
    clause: str = "WHERE",
    extra: Sequence[tuple[str, Schema]] = (),
) -> Expr:
    """A condition over one row (WHERE of UPDATE and DELETE, CHECK)."""
    statement = Statement(context)
    namespace = _row_namespace(schema, relation_name, extra)
    binder = ExprBinder(Env(statement).scope(namespace), statement, clause=clause)
    return _settled(binder.predicate(tree), context)


def _settled(expr: Expr, context: BindContext) -> Expr:
    types = context.parameter_types
    if not types:
        return expr
    final = [t or TEXT for t in types]
    return transform(expr, lambda e: settle_expression(e, final))


def _row_namespace(
    schema: Schema, relation_name: str | None, extra: Sequence[tuple[str, Schema]]
) -> Namespace:
    def named(part: Schema, first: int) -> tuple[NamedColumn, ...]:
        return tuple(
            NamedColumn(c.name, column(first + i, c.type, c.name)) for i, c in enumerate(part)
        )

    columns = named(schema, 0)
    relations = [] if relation_name is None else [NamedRelation(relation_name, columns)]
    width = len(schema)
    for name, part in extra:
        relations.append(NamedRelation(name, named(part, width)))
        width += len(part)
    return Namespace(width, relations, list(columns))


@limited_depth
def bind_insert_source(
    tree: Any,
    columns: Sequence[Column],
    context: BindContext,
    defaults: Sequence[Expr | None] = (),
) -> BoundQuery:
    """The rows of INSERT INTO t (columns) <tree>, each column of exactly its target's type.

    tree: VALUES (where DEFAULT stands for `defaults[i]`, None = NULL) or any query; it may give
    fewer columns than named only if it gives too few for all rows, which is an error:
    Raises: SqlSyntaxError (42601) for too many or too few, DatatypeMismatch (42804).
    """
    statement = Statement(context)
    env = Env(statement)
    if isinstance(tree, exp.Values) and not any(
        tree.args.get(k) for k in ("order", "limit", "offset", "with_")
    ):
        plan: LogicalPlan = _insert_values(tree, columns, env, defaults)
        bound = Bound(plan, (None,) * len(columns))
        return _result(settle(plan, context), bound, statement)
    bound = bind_query_tree(tree, env)
    _check_width(len(bound.plan.schema), columns)
    plan = _assign(bound.plan, columns)
    return _result(settle(plan, context), bound, statement)


def _check_width(given: int, columns: Sequence[Column]) -> None:
    if given > len(columns):
        raise SqlSyntaxError("INSERT has more expressions than target columns")
    if given < len(columns):
        raise SqlSyntaxError("INSERT has more target columns than expressions")


def _assign(plan: LogicalPlan, columns: Sequence[Column]) -> LogicalPlan:
    from streamsql.core.errors import DatatypeMismatch
    from streamsql.functions.coerce import coerce

    for i, (c, given) in enumerate(zip(columns, plan.schema, strict=True)):
        try:
            coerce(column(i, given.type), c.type, "assignment")
        except DatatypeMismatch as error:
            raise assignment_error(c, given.type, error.position) from None
    return typed_outputs(plan, [c.type for c in columns], "assignment")


def assignment_error(target: Column, given: SqlType, position: int | None) -> Exception:
    """PostgreSQL's 42804 for a value that does not fit its column."""
    from streamsql.core.errors import DatatypeMismatch

    return DatatypeMismatch(
        f'column "{target.name}" is of type {target.type} but expression is of type {given}',
        position=position,
        hint="You will need to rewrite or cast the expression.",
    )


def _insert_values(
    tree: exp.Values, columns: Sequence[Column], env: Env, defaults: Sequence[Expr | None]
) -> Values:
    from streamsql.core.errors import DatatypeMismatch
    from streamsql.functions.expressions import Literal
    from streamsql.plan.binder.env import position_of

    binder = ExprBinder(env.scope(Namespace(0)), env.statement, clause="VALUES")
    rows: list[tuple[Expr, ...]] = []
    for row in tree.expressions:
        cells = row.expressions if isinstance(row, exp.Tuple) else [row]
        if rows and len(cells) != len(rows[0]):
            raise SqlSyntaxError(
                "VALUES lists must all be the same length", position=position_of(row)
            )
        _check_width(len(cells), columns)
        bound: list[Expr] = []
        for i, (cell, target) in enumerate(zip(cells, columns, strict=True)):
            if isinstance(cell, exp.Var) and cell.name.upper() == "DEFAULT":
                default = defaults[i] if i < len(defaults) else None
                bound.append(default or Literal(value=None, type=target.type))
                continue
            expr = binder.bind(cell)
            try:
                bound.append(binder.coerce(expr, target.type, "assignment"))
            except DatatypeMismatch as error:
                at = error.position if error.position is not None else position_of(cell)
                raise assignment_error(target, expr.type, at) from None
        rows.append(tuple(bound))
    schema = Schema(tuple(Column(c.name, c.type) for c in columns))
    return Values(schema=schema, rows=tuple(rows))
