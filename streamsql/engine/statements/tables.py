"""CREATE TABLE, CREATE SOURCE, CREATE TABLE AS."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from streamsql.core.delta import make_batch
from streamsql.core.errors import (
    DuplicateColumn,
    DuplicateTable,
    FeatureNotSupported,
    InvalidTableDefinition,
    SqlSyntaxError,
)
from streamsql.core.schema import Column, Schema
from streamsql.dialect.statements import CreateTable
from streamsql.engine.api import Result
from streamsql.engine.catalog import SchemaEntry
from streamsql.engine.constraints import unique_constraints
from streamsql.engine.ddl import CreateRelation, CreateSchemaOp, DdlOp
from streamsql.engine.definitions import (
    TABLE_OPTIONS,
    bind_program,
    check_options,
    key_columns,
    table_schema,
)
from streamsql.engine.dml.pending import PendingWrites
from streamsql.engine.reads.select import bind_select, run_plan
from streamsql.engine.reads.versions import at_versions
from streamsql.engine.relations import Key, Relation
from streamsql.engine.requests import CommitRequest, PreparedWrite
from streamsql.engine.statements.handler import Handler, Types
from streamsql.engine.storage.retention import check_retention
from streamsql.engine.storage.table import TableState
from streamsql.engine.tables import watermark_tracker
from streamsql.functions.expressions import Literal

if TYPE_CHECKING:
    from streamsql.engine.session import Session


def run(
    session: Session, statement: CreateTable, values: tuple[Literal, ...], declared: Types
) -> Result:
    """Make the table; CREATE TABLE AS fills it in the same tick."""
    session.check_writable()
    schema_name, name, ops = target_of(session, statement)
    if session.catalog.get(schema_name, name) is not None:
        if statement.if_not_exists:
            session.notice(f'relation "{name}" already exists, skipping', sqlstate="42P07")
            return Result(tag_of(statement))
        raise DuplicateTable(f'relation "{name}" already exists')
    if statement.as_query is not None:
        return create_as(session, statement, schema_name, name, ops)
    check_definition(statement)
    scope = session.scope
    columns = table_schema(statement, scope)
    program = bind_program(statement, columns, scope)
    relation = make_relation(session, statement, schema_name, name, columns)
    table = None
    if relation.kind == "table":
        tracker = watermark_tracker(relation, program)
        table = TableState(relation, tracker)
    ops.append(CreateRelation(relation))
    session.change_catalog_all(ops, {} if table is None else {relation.oid: table})
    return Result(tag_of(statement))


def tag_of(statement: CreateTable) -> str:
    """The command tag."""
    if statement.is_source:
        return "CREATE SOURCE"
    return "CREATE TABLE" if statement.as_query is None else "SELECT"


def target_of(session: Session, statement: CreateTable) -> tuple[str, str, list[DdlOp]]:
    """(schema, name, operations that must come first); temporary tables have a schema apart."""
    catalog = session.catalog
    if not statement.temporary:
        schema, name = catalog.creation_name(statement.name, session.search_path)
        return schema, name, []
    schema = session.temp_schema
    ops: list[DdlOp] = []
    if schema not in catalog.schemas:
        ops.append(CreateSchemaOp(SchemaEntry(catalog.oids.allocate(), schema)))
    return schema, statement.name[-1], ops


def check_definition(statement: CreateTable) -> None:
    """Refuse what the engine does not do. Raises: 0A000, 42P16, 42601."""
    connector = "connector" in statement.options
    what = "a source" if statement.is_source else "a table"
    if not connector:
        check_options(statement.options, TABLE_OPTIONS, what)
    check_retention(statement.options, keeps_rows=not statement.is_source)
    if statement.is_source and not connector:
        raise SqlSyntaxError(
            "a source needs a connector",
            hint="Write CREATE SOURCE ... WITH (connector = '...'), or CREATE TABLE.",
        )
    if statement.is_source and (
        statement.primary_key or any(c.primary_key for c in statement.columns)
    ):
        raise FeatureNotSupported(
            "a source can not have a primary key, because it keeps no rows",
            hint="Use CREATE TABLE with the same connector.",
        )
    if statement.include and not connector:
        raise InvalidTableDefinition(
            "INCLUDE needs a connector",
            hint="Rows that are inserted come from nowhere: leave the INCLUDE clause out.",
        )
    if not statement.columns and not statement.is_source and not connector:
        return
    if not statement.columns:
        raise FeatureNotSupported(
            "the columns of a source must be written out",
            hint="List the columns with their types.",
        )
    if statement.append_only and statement.on_conflict not in ("default", "error", "do_nothing"):
        raise InvalidTableDefinition(
            "an append-only table can not overwrite rows",
            hint="Leave out APPEND ONLY or the ON CONFLICT clause.",
        )


def make_relation(
    session: Session, statement: CreateTable, schema: str, name: str, columns: Schema
) -> Relation:
    """The catalog entry, with fresh OIDs for everything in it."""
    oids = session.catalog.oids
    keys: list[Key] = []
    primary = tuple(columns.index(c) for c in key_columns(statement))
    if primary:
        keys.append(new_key(session, f"{name}_pkey", primary, primary=True))
    for constraint, key in unique_constraints(statement, name, columns, primary):
        keys.append(new_key(session, constraint, key, primary=False))
    watermark = statement.watermark
    oid = oids.allocate(2)
    return Relation(
        oid=oid,
        type_oid=oid + 1,
        schema=schema,
        name=name,
        kind="source" if statement.is_source else "table",
        columns=columns,
        sql=statement.sql,
        context=session.definition_context,
        statement=statement,
        keys=tuple(keys),
        unique_keys=tuple(k.columns for k in keys if k.primary or not_null(columns, k.columns)),
        append_only=statement.append_only or statement.is_source,
        on_conflict=conflict_policy(session, statement, bool(primary)),
        watermark_column=None if watermark is None else columns.index(watermark.column),
        options=dict(statement.options),
        temporary=statement.temporary,
    )


def not_null(columns: Schema, key: tuple[int, ...]) -> bool:
    """Whether no column of the key can be NULL (then it identifies rows)."""
    return not any(columns[i].nullable for i in key)


def new_key(session: Session, name: str, columns: tuple[int, ...], *, primary: bool) -> Key:
    """A constraint with its OIDs."""
    oid = session.catalog.oids.allocate(2)
    return Key(name, columns, primary, oid, oid + 1)


def conflict_policy(session: Session, statement: CreateTable, keyed: bool) -> str:
    """What a plain INSERT does about an existing primary key."""
    written = statement.on_conflict
    if written != "default":
        if not keyed and written != "error":
            raise InvalidTableDefinition("ON CONFLICT of a table needs a primary key")
        return written
    overwrites = "connector" in statement.options or (
        session.variables.get("dialect") == "risingwave"
    )
    return "overwrite" if keyed and overwrites and not statement.append_only else "error"


def create_as(
    session: Session, statement: CreateTable, schema: str, name: str, ops: list[DdlOp]
) -> Result:
    """CREATE TABLE name [(columns)] AS query."""
    assert statement.as_query is not None
    bound = bind_select(statement.as_query, session.reading_scope, [], statement.sql)
    names = list(statement.as_columns)
    if len(names) > len(bound.schema):
        raise SqlSyntaxError(
            "too many column names were specified",
            detail=f"The query's columns: {', '.join(bound.schema.names)}.",
        )
    names += bound.schema.names[len(names) :]
    for i, column in enumerate(names):
        if column in names[:i]:
            raise DuplicateColumn(f'column "{column}" specified more than once')
    columns = Schema(tuple(Column(n, c.type) for n, c in zip(names, bound.schema, strict=True)))
    relation = make_relation(session, statement, schema, name, columns)
    table = TableState(relation)
    view = at_versions(session, session.read_view(), bound.slots, ())
    rows = run_plan(session, bound.plan, view, ())
    batches = rows.combine_chunks().to_batches()
    pending = PendingWrites.none(table)
    if batches:
        batch: pa.RecordBatch = make_batch(batches[0].columns, columns.arrow, rows.num_rows)
        pending = pending.add(table.no_rows(), batch)
    ops.append(CreateRelation(relation))
    if session.transaction is None:
        writes = [PreparedWrite(pending)] if pending else []
        session.commit(CommitRequest(writes, tuple(ops), {relation.oid: table}))
    else:
        session.change_catalog_all(ops, {relation.oid: table})
        session.transaction.writes[relation.oid] = pending
    return Result(f"SELECT {rows.num_rows}", row_count=rows.num_rows)


HANDLER = Handler(run, tag="CREATE TABLE")
