"""CREATE TABLE and CREATE SOURCE, from the parsed definition to a relation and its expressions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from streamsql.core.errors import (
    DatatypeMismatch,
    DuplicateColumn,
    FeatureNotSupported,
    InvalidObjectDefinition,
    InvalidParameterValue,
    InvalidTableDefinition,
    UndefinedColumn,
)
from streamsql.core.schema import Column, Schema
from streamsql.core.types import DATETIME_KINDS, Kind, SqlType
from streamsql.dialect.statements import ColumnDef, CreateTable
from streamsql.engine.binding import BindScope, bind_scalar
from streamsql.engine.constraints import bind_checks, refuse_subquery
from streamsql.engine.relations import Relation
from streamsql.engine.storage.watermarks import DEFAULT_MAX_FUTURE_US, WatermarkPolicy
from streamsql.functions.expressions import Expr, columns_used
from streamsql.plan.binder.context import NOW_REFUSED, NOW_TICK

TABLE_OPTIONS = ("idle_timeout", "max_future", "allowed_lateness", "on_error", "retention")


@dataclass(frozen=True)
class TableProgram:
    """Bound expressions of a table.

    defaults: one per column, None = NULL; over no columns. generated: (position, expression over
    the user's columns). watermark: expression over the user's columns, of a datetime type; None
    without WATERMARK. percentile: (fraction, span µs) of the adaptive form. checks: (constraint,
    condition over the user's columns).
    """

    defaults: tuple[Expr | None, ...]
    generated: tuple[tuple[int, Expr], ...] = ()
    watermark: Expr | None = None
    percentile: tuple[float, int] | None = None
    policy: WatermarkPolicy = field(default_factory=WatermarkPolicy)
    checks: tuple[tuple[str, Expr], ...] = ()


def table_schema(statement: CreateTable, scope: BindScope) -> Schema:
    """The columns of a written-out definition; untyped generated ones take their expression's type.

    Raises: DuplicateColumn (42701), UndefinedColumn (42703).
    """
    seen: set[str] = set()
    for c in statement.columns:
        if c.name in seen:
            raise DuplicateColumn(
                f'column "{c.name}" specified more than once', position=c.position or None
            )
        seen.add(c.name)
    typed = Schema(tuple(Column(c.name, c.type) for c in statement.columns if c.type is not None))
    key = set(key_columns(statement))
    columns = []
    for c in statement.columns:
        type_ = c.type if c.type is not None else _generated_type(c, typed, scope)
        columns.append(Column(c.name, type_, not (c.not_null or c.name in key)))
    for kind, name in statement.include:
        if name in seen:
            raise DuplicateColumn(f'column "{name}" specified more than once')
        seen.add(name)
        columns.append(Column(name, included_type(kind)))
    return Schema(tuple(columns))


def included_type(kind: str) -> SqlType:
    """The type of an INCLUDE column. Raises: FeatureNotSupported (0A000)."""
    from streamsql.connectors.base import INCLUDED

    found = INCLUDED.get(kind)
    if found is None:
        raise FeatureNotSupported(
            f"INCLUDE {kind} is not supported",
            hint=f"There are {', '.join(INCLUDED)}; declare everything else as a column.",
        )
    return found


def _generated_type(column: ColumnDef, typed: Schema, scope: BindScope) -> SqlType:
    assert column.generated is not None, "only a generated column may leave its type out"
    return bind_scalar(column.generated, typed, scope.context(now=NOW_TICK)).type


def key_columns(statement: CreateTable) -> tuple[str, ...]:
    """Names of the primary key's columns.

    Raises: InvalidTableDefinition (42P16), UndefinedColumn (42703).
    """
    inline = [c.name for c in statement.columns if c.primary_key]
    if len(inline) > 1 or (inline and statement.primary_key not in ((), tuple(inline))):
        raise InvalidTableDefinition(
            f'multiple primary keys for table "{statement.name[-1]}" are not allowed'
        )
    names = tuple(inline) or statement.primary_key
    known = {c.name for c in statement.columns}
    for i, name in enumerate(names):
        if name not in known:
            raise UndefinedColumn(f'column "{name}" named in key does not exist')
        if name in names[:i]:
            raise DuplicateColumn(f'column "{name}" appears twice in primary key constraint')
    return names


def bind_program(statement: CreateTable, schema: Schema, scope: BindScope) -> TableProgram:
    """Bind defaults, generated columns, checks and the watermark.

    Raises: errors of binding, InvalidObjectDefinition (42P17), DatatypeMismatch (42804).
    """
    defaults: list[Expr | None] = []
    generated: list[tuple[int, Expr]] = []
    made = {i for i, c in enumerate(statement.columns) if c.generated is not None}
    for i, c in enumerate(statement.columns):
        default = None
        if c.default is not None:
            default = _bind_default(c, schema[i].type, scope)
        defaults.append(default)
        if c.generated is not None:
            generated.append((i, _bind_generated(c, schema, schema[i].type, made, scope)))
    defaults += [None] * len(statement.include)
    watermark, percentile = _bind_watermark(statement, schema, scope)
    policy = watermark_policy(statement.options)
    checks = bind_checks(statement, schema, scope)
    return TableProgram(tuple(defaults), tuple(generated), watermark, percentile, policy, checks)


def _bind_default(column: ColumnDef, type_: SqlType, scope: BindScope) -> Expr:
    assert column.default is not None
    try:
        expr = bind_scalar(column.default, Schema(()), scope.context(), target=type_)
        refuse_subquery(expr, "DEFAULT expression")
        return expr
    except DatatypeMismatch as error:
        found = bind_scalar(column.default, Schema(()), scope.context()).type
        raise DatatypeMismatch(
            f'column "{column.name}" is of type {type_} but default expression is of type {found}',
            position=error.position,
            hint="You will need to rewrite or cast the expression.",
        ) from error


def _bind_generated(
    column: ColumnDef, schema: Schema, type_: SqlType, made: set[int], scope: BindScope
) -> Expr:
    assert column.generated is not None
    expr = bind_scalar(column.generated, schema, scope.context(now=NOW_TICK), target=type_)
    refuse_subquery(expr, "column generation expression")
    for i in sorted(columns_used(expr) & made):
        raise InvalidObjectDefinition(
            f'cannot use generated column "{schema[i].name}" in column generation expression',
            detail="A generated column cannot reference another generated column.",
        )
    return expr


def _bind_watermark(
    statement: CreateTable, schema: Schema, scope: BindScope
) -> tuple[Expr | None, tuple[float, int] | None]:
    definition = statement.watermark
    if definition is None:
        return None, None
    at = definition.position or None
    index = schema.index(definition.column)
    if index < 0:
        raise UndefinedColumn(f'column "{definition.column}" does not exist', position=at)
    if schema[index].type.kind not in DATETIME_KINDS:
        raise DatatypeMismatch(
            f'watermark column "{definition.column}" is of type {schema[index].type}, '
            "but must be a date or timestamp",
            position=at,
            hint="Add a generated column that converts it, and define the watermark on that.",
        )
    if definition.percentile is not None:
        assert definition.percentile_span_us is not None
        from streamsql.functions.expressions import column

        expr: Expr = column(index, schema[index].type, definition.column)
        return expr, (definition.percentile, definition.percentile_span_us)
    assert definition.expression is not None
    context = scope.context(volatile_allowed=False, now=NOW_REFUSED)
    expr = bind_scalar(definition.expression, schema, context)
    refuse_subquery(expr, "WATERMARK expression", at)
    if expr.type.kind is Kind.UNKNOWN or expr.type.kind not in DATETIME_KINDS:
        raise DatatypeMismatch(
            f"watermark expression is of type {expr.type}, but must be a date or timestamp",
            position=at,
        )
    return expr, None


def watermark_policy(options: dict[str, str]) -> WatermarkPolicy:
    """The watermark options of WITH. Raises: InvalidParameterValue (22023)."""
    policy = WatermarkPolicy()
    if "idle_timeout" in options:
        policy = replace(policy, idle_timeout_us=_span(options, "idle_timeout", None))
    if "max_future" in options:
        policy = replace(policy, max_future_us=_span(options, "max_future", None))
    else:
        policy = replace(policy, max_future_us=DEFAULT_MAX_FUTURE_US)
    if "allowed_lateness" in options:
        policy = replace(policy, lateness_us=_span(options, "allowed_lateness", 0) or 0)
    return policy


def _span(options: dict[str, str], name: str, off: int | None) -> int | None:
    text = options[name]
    if text.strip().lower() in ("off", "none", ""):
        return off
    return interval_us(text, name)


def interval_us(text: str, name: str) -> int:
    """An interval text as µs; months are refused. Raises: InvalidParameterValue (22023)."""
    from streamsql.core.errors import StreamSqlError
    from streamsql.dialect import interval_parts

    try:
        months, days, us = interval_parts(text)
    except StreamSqlError as error:
        raise InvalidParameterValue(
            f'invalid value for option "{name}": "{text}"',
            hint="Give an interval, for example '30 seconds'.",
        ) from error
    total = days * 86_400_000_000 + us
    if months or total < 0:
        raise InvalidParameterValue(
            f'invalid value for option "{name}": "{text}"',
            hint="Give an interval of days or less that is not negative.",
        )
    return total


def check_options(options: dict[str, str], known: Sequence[str], what: str) -> None:
    """Nothing is ignored in silence. Raises: FeatureNotSupported (0A000) with the known ones."""
    for name in options:
        if name not in known:
            raise FeatureNotSupported(
                f'option "{name}" of {what} is not supported',
                hint=f"Known options: {', '.join(known)}.",
            )


def program_of(relation: Relation, scope: BindScope) -> TableProgram:
    """The program of a relation of the catalog (bound again after a restart)."""
    statement = relation.statement
    if not isinstance(statement, CreateTable) or statement.as_query is not None:
        return TableProgram((None,) * len(relation.columns))
    return bind_program(statement, relation.columns, scope)


def standing_program(relation: Relation, scope: BindScope) -> TableProgram:
    """The program of a definition that is in force. One that would be refused today for reading
    the clock goes on as it always did: its rows are there, and must stay within reach."""
    try:
        return program_of(relation, scope)
    except FeatureNotSupported:
        return program_of(relation, replace(scope, standing=True))
