"""ALTER TABLE: columns come, go, get other names, defaults and NOT NULL.

Each action makes the table's new definition (its text is edited, then read again), says what
becomes of the rows, and lets `redefine` carry on to the views. Inside a transaction the rows in
their new columns are made for the transaction itself; COMMIT makes them again from what is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from streamsql.core.errors import (
    DuplicateColumn,
    FeatureNotSupported,
    InvalidTableDefinition,
    InvariantViolation,
    NotNullViolation,
    ObjectNotInPrerequisiteState,
    StreamSqlError,
    UndefinedColumn,
    WrongObjectType,
)
from streamsql.core.schema import Schema
from streamsql.dialect.statements import Alter, ColumnDef, CreateTable, CreateView
from streamsql.engine.alterations import converted
from streamsql.engine.binding import BindScope
from streamsql.engine.catalog import describe
from streamsql.engine.ddl import DdlOp, RowsChange
from streamsql.engine.definition_text import DefinitionText, rename_column_of_table
from streamsql.engine.definitions import program_of, table_schema
from streamsql.engine.dml.rows import RowMaker
from streamsql.engine.new_columns import changes_by_row, write_fill
from streamsql.engine.pgcatalog.names import quote_ident
from streamsql.engine.rebind import rebind_all
from streamsql.engine.redefine import Moves, Redefinition, read_definition
from streamsql.engine.relations import Relation
from streamsql.engine.storage.changelog import ChangeLog
from streamsql.engine.storage.table import row_ids

if TYPE_CHECKING:
    from streamsql.engine.session import Session


# --- what all share -------------------------------------------------------------------------------
def only_table(relation: Relation, what: str) -> CreateTable:
    """The definition of a table whose columns may change. Raises: WrongObjectType (42809)."""
    statement = relation.statement
    if relation.kind != "table" or not isinstance(statement, CreateTable):
        raise WrongObjectType(
            f"cannot {what} {describe(relation)}",
            hint="Only tables have columns of their own; use CREATE OR REPLACE for a view.",
        )
    return statement


def position_of_column(relation: Relation, name: str) -> int:
    """Raises: UndefinedColumn (42703)."""
    at = relation.columns.index(name)
    if at < 0:
        raise UndefinedColumn(f'column "{name}" of relation "{relation.name}" does not exist')
    return at


def readable(relation: Relation) -> str:
    """The text of a table with its columns written out (CREATE TABLE AS has none)."""
    statement = relation.statement
    if isinstance(statement, CreateTable) and statement.as_query is None:
        return relation.sql
    columns = [
        f"{quote_ident(c.name)} {c.type}{'' if c.nullable else ' NOT NULL'}"
        for c in relation.columns
    ]
    name = f"{quote_ident(relation.schema)}.{quote_ident(relation.name)}"
    return f"CREATE TABLE {name} ({', '.join(columns)})"


def redefined(relation: Relation, sql: str | None, columns: Schema) -> Relation:
    """The table with another text, which has to define exactly these columns."""
    statement = None if sql is None else read_definition(sql, relation)
    if sql is None or not isinstance(statement, CreateTable):
        raise cannot_edit(relation)
    if tuple(c.name for c in statement.columns) != columns.names:
        raise cannot_edit(relation)
    return replace(relation, sql=sql, statement=statement, columns=columns)


def anew(how: str = "") -> str:
    """The hint where a table can not be changed in its place. how: what the new one is."""
    return (
        f"Create a new table{how}, copy the rows with INSERT ... SELECT, and SWAP WITH it; "
        "views stay on the old table: create them anew."
    )


def cannot_edit(relation: Relation) -> InvariantViolation:
    """The text of the definition has a form that no edit is known for: there is none such."""
    return InvariantViolation(
        f'the definition of table "{relation.name}" can not be changed that way',
        hint=anew(),
    )


def submit(
    session: Session,
    redefinition: Redefinition,
    rows: RowsChange | None = None,
    also: tuple[DdlOp, ...] = (),
    first: tuple[DdlOp, ...] = (),
) -> None:
    """Hand the change over; in a transaction, with the rows that the transaction sees."""
    operation = redefinition.operation(() if rows is None else (rows,))
    tables = {}
    transaction = session.transaction
    if rows is not None and transaction is not None and not transaction.collecting:
        transaction.pin()
        table = session.table(rows.oid)
        assert table is not None and transaction.version is not None
        if transaction.writes.get(rows.oid):
            raise ObjectNotInPrerequisiteState(
                f'cannot ALTER TABLE "{table.relation.name}" because it has been written to in '
                "this transaction",
                hint="COMMIT before the ALTER TABLE.",
            )
        with session.engine.lock:
            stored = table.read(transaction.version)()
        relation = redefinition.after.relations[rows.oid]
        state = converted(table, relation, redefinition.after, rows, stored)
        state.log = ChangeLog(transaction.version)
        tables[rows.oid] = state
    session.change_catalog_all([*first, operation, *also], tables)


@contextmanager
def positions_moved(by: int) -> Iterator[None]:
    """Errors inside speak of the new definition's text, users of the statement that changes it."""
    try:
        yield
    except StreamSqlError as error:
        if error.position is not None:
            error.position += by
        raise


def unconnected(relation: Relation, what: str) -> None:
    """Raises: FeatureNotSupported (0A000) where the names are those of the connector's data."""
    if relation.connector:
        raise FeatureNotSupported(
            f"cannot {what} of {describe(relation)}, because its connector knows them by name",
            hint="Give the column another name in a view.",
        )


# --- RENAME COLUMN --------------------------------------------------------------------------------
def rename_column(session: Session, statement: Alter, relation: Relation) -> None:
    """RENAME COLUMN a TO b, of tables and of views."""
    old, new = statement.arguments["column"], statement.arguments["new_name"]
    if relation.kind in ("index", "source", "subscription"):
        unconnected(relation, "rename columns")
        raise WrongObjectType(
            f"cannot rename columns of {describe(relation)}",
            hint="Rename the column of the relation it stands on, or create it anew.",
        )
    unconnected(relation, "rename columns")
    at = position_of_column(relation, old)
    if relation.columns.index(new) >= 0:
        raise DuplicateColumn(f'column "{new}" of relation "{relation.name}" already exists')
    columns = list(relation.columns)
    columns[at] = replace(columns[at], name=new)
    schema = Schema(tuple(columns))
    redefinition = Redefinition(session.catalog)
    if isinstance(relation.statement, CreateView):
        sql = DefinitionText(relation.sql).with_column_list(schema.names)
        read = read_definition(sql, relation)
        redefinition.change(replace(relation, sql=sql, statement=read, columns=schema))
    else:
        written = only_table(relation, "rename columns of")
        if written.as_query is None:
            edited = rename_column_of_table(written, relation.sql, old, new)
        else:
            edited = readable(replace(relation, columns=schema))
        redefinition.change(redefined(relation, edited, schema))
    redefinition.carry({relation.oid: Moves.none(len(columns))})
    submit(session, redefinition)


# --- ADD COLUMN -----------------------------------------------------------------------------------
def add_column(session: Session, statement: Alter, relation: Relation) -> None:
    """ADD [COLUMN] [IF NOT EXISTS] definition: present rows get its default."""
    only_table(relation, "add a column to")
    given: ColumnDef = statement.arguments["column"]
    if relation.columns.index(given.name) >= 0:
        text = f'column "{given.name}" of relation "{relation.name}" already exists'
        if statement.arguments.get("if_not_exists"):
            session.notice(f"{text}, skipping", sqlstate="42701")
            return
        raise DuplicateColumn(text)
    if given.primary_key or given.unique:
        raise key_column()
    written = statement.arguments["span"].text(statement)
    base = replace(relation, sql=readable(relation))
    sql = DefinitionText(base.sql).with_column(written)
    read = None if sql is None else read_definition(sql, relation)
    if sql is None or not isinstance(read, CreateTable):
        raise cannot_edit(relation)
    before = relation.statement
    if isinstance(before, CreateTable) and len(read.uniques) != len(before.uniques):
        raise key_column()
    scope = BindScope(session.catalog, relation.context)
    with positions_moved(given.position - statement.position - sql.index(written)):
        column = table_schema(read, scope)[-1]
        columns = Schema((*relation.columns.columns, column))
        extra = {**relation.extra, "layout": relation.layout + 1}
        new = replace(redefined(base, sql, columns), extra=extra)
        program_of(new, scope)
    redefinition = Redefinition(session.catalog)
    redefinition.change(new)
    redefinition.carry({relation.oid: Moves.none(len(relation.columns))})
    places = (*range(len(relation.columns)), None)
    submit(session, redefinition, new_values(session, relation, new, places))


def key_column() -> FeatureNotSupported:
    """0A000: a column that is a key by itself."""
    return FeatureNotSupported(
        "adding a key column is not supported",
        hint="Add the column, fill it, and then ADD UNIQUE.",
    )


def new_values(
    session: Session, old: Relation, new: Relation, places: tuple[int | None, ...]
) -> RowsChange:
    """The last column's values for the rows that are there: one for all, or what follows from each
    row. Raises: 23502, errors of the expression."""
    scope = BindScope(session.catalog, new.context)
    program = program_of(new, scope)
    maker = RowMaker(new, program)
    at, now_us, zone = len(new.columns) - 1, session.now_us(), new.context.timezone
    change = RowsChange(old.oid, places)
    if any(i == at for i, _ in program.generated):
        return replace(change, compute=((at, ""),), now_us=now_us, timezone=zone)
    if not changes_by_row(program.defaults[at]):
        return replace(change, fill=write_fill([maker.default(at, 1, now_us, zone)], None))
    if session.transaction is None and session.engine.jobs.is_table_large(old.oid):
        return replace(change, compute=((at, ""),), now_us=now_us, timezone=zone)
    ids = row_ids_now(session, old.oid)
    values = maker.default(at, len(ids), now_us, zone)
    if not new.columns[at].nullable and values.null_count:
        raise NotNullViolation(
            f'column "{new.columns[at].name}" of relation "{new.name}" contains null values'
        )
    return replace(change, fill=write_fill([values], ids))


def row_ids_now(session: Session, oid: int) -> pa.Array:
    """The ids of the rows that a session sees in a table."""
    table = session.table(oid)
    assert table is not None
    transaction = session.transaction
    with session.engine.lock:
        if transaction is None or transaction.version is None:
            stored = table.read(session.engine.version)
        else:
            stored = table.read(transaction.version)
    return pa.array(row_ids(stored(), table.num_columns))


# --- ALTER COLUMN ---------------------------------------------------------------------------------
def alter_column(session: Session, statement: Alter, relation: Relation) -> None:
    """ALTER COLUMN c SET | DROP DEFAULT, SET | DROP NOT NULL."""
    written = only_table(relation, "change a column of")
    arguments = statement.arguments
    name = arguments["column"]
    at = position_of_column(relation, name)
    if "type" in arguments:
        from streamsql.engine.statements.alter_type import change_type

        change_type(session, statement, relation, at)
        return
    if "default" in arguments:
        set_default(session, statement, relation, written)
        return
    not_null = bool(arguments["not_null"])
    if not not_null and any(k.primary and at in k.columns for k in relation.keys):
        raise InvalidTableDefinition(f'column "{name}" is in a primary key')
    if relation.columns[at].nullable != not_null:
        return
    columns = list(relation.columns)
    columns[at] = replace(columns[at], nullable=not not_null)
    schema = Schema(tuple(columns))
    sql = null_text(relation, name, not_null=not_null)
    redefinition = Redefinition(session.catalog)
    new = with_new_rules(redefined(relation, sql, schema))
    unique = tuple(k.columns for k in new.keys if not any(schema[i].nullable for i in k.columns))
    redefinition.change(replace(new, unique_keys=unique))
    again: tuple[DdlOp, ...] = ()
    if not_null:
        redefinition.carry({relation.oid: Moves.none(len(columns))})
    else:  # plans may have relied on it
        again = rebuild_readers(redefinition, relation)
    submit(session, redefinition, also=again)


def with_new_rules(relation: Relation) -> Relation:
    """The table, so that rows made by its rules of before are made again."""
    return replace(relation, extra={**relation.extra, "rules": relation.extra.get("rules", 0) + 1})


def rebuild_readers(redefinition: Redefinition, relation: Relation) -> tuple[DdlOp, ...]:
    """All that reads a table is bound and filled anew."""
    catalog = redefinition.after
    every = catalog.drop_set([catalog.relations[relation.oid]])
    readers = [r for r in reversed(every) if r.oid != relation.oid]
    for layout in [x for x in redefinition.before.layouts.values() if x.of == relation.oid]:
        now = catalog.relations[relation.oid].columns
        columns = [
            c if p is None else replace(c, nullable=now[p].nullable)
            for c, p in zip(layout.columns, layout.positions, strict=True)
        ]
        redefinition.layouts[layout.oid] = replace(layout, columns=Schema(tuple(columns)))
    again = rebind_all(redefinition, readers)
    for reader in readers:  # they stay, but on relations whose columns are others now
        if reader.kind == "index":
            redefinition.move_index(reader, catalog.relations[int(reader.extra["of"])])
        elif reader.kind == "subscription":
            redefinition.carry_subscription(reader)
    return again


def set_default(
    session: Session, statement: Alter, relation: Relation, written: CreateTable
) -> None:
    """SET DEFAULT e, DROP DEFAULT: for rows to come."""
    name = statement.arguments["column"]
    tree = statement.arguments["default"]
    if any(c.name == name and c.generated is not None for c in written.columns):
        raise WrongObjectType(
            f'column "{name}" of relation "{relation.name}" is a generated column'
        )
    base = replace(relation, sql=readable(relation))
    sql: str | None = default_dropped(base, name)
    shift = 0
    if sql is not None and tree is not None:
        span = statement.arguments["span"]
        expression, start = span.text(statement), span.start - statement.position
        text = DefinitionText(sql)
        item = text.item_of(name)
        assert item is not None
        sql = f"{sql[: item.end]} DEFAULT {expression}{sql[item.end :]}"
        shift = start - sql.index(expression, item.end)
    new = redefined(base, sql, relation.columns)
    with positions_moved(shift):
        program_of(new, BindScope(session.catalog, relation.context))
    redefinition = Redefinition(session.catalog)
    redefinition.change(new)
    submit(session, redefinition)


def default_dropped(relation: Relation, name: str) -> str | None:
    """The text without the DEFAULT of a column: the shortest cut after which it has none."""
    text = DefinitionText(relation.sql)
    item = text.item_of(name)
    if item is None:
        return None
    start = next((i for i, t in enumerate(item.tokens) if t.key == "DEFAULT" and i > 1), None)
    if start is None:
        return relation.sql
    for end in range(start + 1, len(item.tokens)):
        first, last = item.tokens[start - 1].end, item.tokens[end].end
        cut = relation.sql[:first] + relation.sql[last:]
        if same_but_default(cut, relation, name):
            return cut
    return None


def same_but_default(sql: str, relation: Relation, name: str) -> bool:
    """Whether a text defines the same columns, this one without a default."""
    before = relation.statement
    try:
        found = read_definition(sql, relation)
    except StreamSqlError:  # also of a type that a cut has spelled
        return False
    if not isinstance(found, CreateTable) or not isinstance(before, CreateTable):
        return False
    if before.as_query is not None:
        return True
    wanted = [replace(c, default=None) if c.name == name else c for c in before.columns]
    return list(found.columns) == wanted and found.checks == before.checks


def null_text(relation: Relation, name: str, *, not_null: bool) -> str | None:
    """The text with or without NOT NULL at a column."""
    text = DefinitionText(readable(relation))
    item = text.item_of(name)
    if item is None:
        return None
    sql = text.sql
    keys = [t.key for t in item.tokens]
    if not_null:
        bare = [i for i, k in enumerate(keys) if k == "NULL" and keys[i - 1] != "DEFAULT" and i > 1]
        if bare:
            token = item.tokens[bare[0]]
            return f"{sql[: token.start]}NOT NULL{sql[token.end :]}"
        return f"{sql[: item.end]} NOT NULL{sql[item.end :]}"
    for i in range(len(keys) - 1):
        if keys[i] == "NOT" and keys[i + 1] == "NULL" and keys[i - 1] != "IS":
            return sql[: item.tokens[i - 1].end] + sql[item.tokens[i + 1].end :]
    return None
