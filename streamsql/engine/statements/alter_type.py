"""ALTER TABLE … ALTER COLUMN c TYPE t [USING e]: every row gets another value there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from streamsql.core.errors import (
    CannotCoerce,
    DatatypeMismatch,
    FeatureNotSupported,
    ObjectNotInPrerequisiteState,
    StreamSqlError,
)
from streamsql.core.schema import Schema
from streamsql.core.types import SqlType
from streamsql.dialect import to_sql
from streamsql.dialect.statements import Alter, CreateTable
from streamsql.engine.binding import BindScope
from streamsql.engine.catalog import describe
from streamsql.engine.constraints import refuse_subquery
from streamsql.engine.ddl import RowsChange
from streamsql.engine.definition_text import DefinitionText
from streamsql.engine.definitions import program_of
from streamsql.engine.new_columns import bind_using, changes_by_row
from streamsql.engine.redefine import Moves, Redefinition, read_definition
from streamsql.engine.relations import Relation
from streamsql.engine.statements.alter_table import (
    anew,
    cannot_edit,
    readable,
    redefined,
    submit,
    unconnected,
)
from streamsql.engine.statements.drop_column import dependents_of_columns, rebuild
from streamsql.functions.expressions import columns_used

if TYPE_CHECKING:
    from streamsql.engine.session import Session


def change_type(session: Session, statement: Alter, relation: Relation, at: int) -> None:
    """The column at this position becomes one of another type; views that use it block."""
    name, wanted = relation.columns[at].name, statement.arguments["type"]
    using = statement.arguments.get("using")
    if is_exactly(relation.columns[at].type, wanted) and using is None:
        return
    unconnected(relation, "change the types of columns")
    carriers = check_dependents(session, relation, at)
    columns = list(relation.columns)
    columns[at] = replace(columns[at], type=wanted)
    base = replace(relation, sql=readable(relation))
    sql = with_type(base, name, wanted)
    extra = {**relation.extra, "layout": relation.layout + 1}
    new = replace(redefined(base, sql, Schema(tuple(columns))), extra=extra)
    check_default(session, new, at)
    tree = using or exp.column(exp.to_identifier(name, quoted=True))
    check_using(session, relation, new, at, tree, cast=using is None)
    moves = Moves({i: i for i in range(len(columns)) if i != at})
    redefinition = Redefinition(session.catalog)
    redefinition.change(new)
    redefinition.carry({relation.oid: moves})
    again = rebuild(redefinition, relation, {name}, carriers)
    change = RowsChange(
        relation.oid,
        tuple(None if i == at else i for i in range(len(columns))),
        compute=((at, to_sql(tree)),),
        now_us=session.now_us(),
        timezone=session.timezone,
    )
    submit(session, redefinition, change, again)


def is_exactly(one: SqlType | None, other: SqlType) -> bool:
    """Whether two types are equal in their digits too (TIMESTAMP(3) equals TIMESTAMP)."""
    return one == other and str(one) == str(other)


def check_dependents(session: Session, relation: Relation, at: int) -> list[Relation]:
    """Views that only carry the column along, and are built anew without it. Raises: 0A000, 55000
    where somebody needs the column as it is."""
    name = relation.columns[at].name
    program = program_of(relation, BindScope(session.catalog, relation.context))
    for i, expr in program.generated:
        if i == at:
            raise FeatureNotSupported(
                f'cannot alter type of generated column "{name}"',
                hint="Drop the column and add it with the other type.",
            )
        if at in columns_used(expr):
            raise FeatureNotSupported(
                "cannot alter type of a column used by a generated column",
                detail=f'Column "{name}" is used by generated column "{relation.columns[i].name}".',
                hint="Drop the generated column first, and add it again afterwards.",
            )
    timed = program.watermark is not None and at in columns_used(program.watermark)
    if timed or at == relation.watermark_column:
        raise FeatureNotSupported(
            f'cannot alter type of column "{name}" of table "{relation.name}" '
            "because its watermark needs it",
            hint=anew(" with the other type"),
        )
    users, carriers = dependents_of_columns(session, relation, {name})
    views = [u for u in users if u.kind != "index"]
    if views:
        raise FeatureNotSupported(
            "cannot alter type of a column used by a view or rule",
            detail="\n".join(f'{describe(v)} depends on column "{name}"' for v in views),
            hint="Drop the views and create them again afterwards, or add a column.",
        )
    for dependent in session.catalog.dependents([relation.oid]):
        if dependent.kind == "subscription":
            raise ObjectNotInPrerequisiteState(
                f"cannot alter type of a column of {describe(relation)} because "
                f"{describe(dependent)} keeps changes of the old one",
                hint="Drop the subscription first.",
            )
    return carriers


def check_default(session: Session, new: Relation, at: int) -> None:
    """The column's default is one of the new type, and all that the table's definition says has a
    meaning still. Raises: DatatypeMismatch (42804), errors of binding."""
    try:
        program_of(new, BindScope(session.catalog, new.context))
    except StreamSqlError as error:
        error.position = None  # of the definition's text
        if not isinstance(error, DatatypeMismatch) or "default" not in error.message:
            raise
        column = new.columns[at]
        raise DatatypeMismatch(
            f'default for column "{column.name}" cannot be cast automatically to type '
            f"{column.type}",
            hint="DROP DEFAULT first, and SET it again afterwards.",
        ) from error


def check_using(
    session: Session,
    old: Relation,
    new: Relation,
    at: int,
    tree: exp.Expression,
    *,
    cast: bool,
) -> None:
    """What the values become can be computed. cast: nobody has said how. Raises: DatatypeMismatch
    (42804) with PostgreSQL's words, errors of binding."""
    column = new.columns[at]
    zone, catalog = session.timezone, session.catalog
    bind_using(tree, old, None, catalog, zone)  # what is wrong with it as it stands
    try:
        expr = bind_using(tree, old, column.type, catalog, zone)
    except (DatatypeMismatch, CannotCoerce) as error:
        if cast:
            raise DatatypeMismatch(
                f'column "{column.name}" cannot be cast automatically to type {column.type}',
                hint=f'You might need to specify "USING {column.name}::{column.type}".',
            ) from error
        raise DatatypeMismatch(
            f'result of USING clause for column "{column.name}" cannot be cast automatically to '
            f"type {column.type}",
            hint="You might need to add an explicit cast.",
        ) from error
    refuse_subquery(expr, "transform expression")
    if changes_by_row(expr):
        raise FeatureNotSupported(
            "volatile functions are not supported in transform expressions",
            hint="Add a column with that DEFAULT instead.",
        )


def with_type(relation: Relation, name: str, wanted: SqlType) -> str:
    """The text with another type of a column: the words after its name that are it. Raises:
    FeatureNotSupported (0A000)."""
    text = DefinitionText(relation.sql)
    item, before = text.item_of(name), relation.statement
    if item is None:
        raise cannot_edit(relation)
    for end in range(1, len(item.tokens)):
        start = item.tokens[1].start
        sql = f"{relation.sql[:start]}{wanted}{relation.sql[item.tokens[end].end :]}"
        try:
            found = read_definition(sql, relation)
        except StreamSqlError:
            continue
        if not isinstance(found, CreateTable):
            continue
        if not all(is_exactly(c.type, wanted) for c in found.columns if c.name == name):
            continue  # `INTERVAL` of `INTERVAL(1)` was taken for the whole type
        if not isinstance(before, CreateTable) or before.as_query is not None:
            return sql
        columns = [replace(c, type=wanted) if c.name == name else c for c in before.columns]
        if list(found.columns) == columns and found.checks == before.checks:
            return sql
    raise cannot_edit(relation)
