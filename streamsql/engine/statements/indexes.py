"""CREATE INDEX; DROP INDEX is in `schemas`, SHOW INDEXES in `show`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from streamsql.core.errors import (
    DuplicateTable,
    FeatureNotSupported,
    UndefinedColumn,
    UndefinedObject,
    WrongObjectType,
)
from streamsql.core.schema import Column, Schema
from streamsql.core.types import Kind
from streamsql.dialect import position_of
from streamsql.dialect.statements import CreateIndex
from streamsql.engine.api import Result
from streamsql.engine.ddl import CreateRelation
from streamsql.engine.indexes import bind_keys
from streamsql.engine.relations import Relation
from streamsql.engine.statements.common import lookup
from streamsql.engine.statements.handler import Handler, Types
from streamsql.engine.storage.key_index import can_order
from streamsql.functions.expressions import ColumnRef, Expr, Literal

if TYPE_CHECKING:
    from streamsql.engine.session import Session

NAME_MAX = 63


def run(
    session: Session, statement: CreateIndex, values: tuple[Literal, ...], declared: Types
) -> Result:
    """CREATE [UNIQUE] INDEX [IF NOT EXISTS] [i] ON r (expr, …) [INCLUDE (…)]."""
    session.check_writable()
    owner = lookup(session, statement.table)
    check_owner(owner, statement)
    keys = bind_keys(statement, owner, session.scope)
    for key, tree in zip(keys, statement.expressions, strict=True):
        check_key(key, tree)
        if statement.unique and not isinstance(key, ColumnRef):
            raise FeatureNotSupported(
                "unique indexes on expressions are not supported",
                position=position_of(tree),
                hint="Add a generated column with the expression, and index that.",
            )
    for name in statement.include:
        if owner.columns.index(name) < 0:
            raise UndefinedColumn(f'column "{name}" does not exist')
    name = index_name(session, statement, owner, keys)
    old = session.catalog.get(owner.schema, name)
    if old is not None:
        if statement.if_not_exists:
            session.notice(f'relation "{name}" already exists, skipping', sqlstate="42P07")
            return Result("CREATE INDEX")
        raise DuplicateTable(f'relation "{name}" already exists')
    columns = key_columns(keys, owner)
    relation = Relation(
        oid=session.catalog.oids.allocate(),
        schema=owner.schema,
        name=name,
        kind="index",
        columns=columns,
        sql=statement.sql,
        context=session.definition_context,
        statement=statement,
        references={".".join(statement.table): owner.oid},
        temporary=owner.temporary,
        extra={
            "of": owner.oid,
            "unique": statement.unique,
            "columns": [e.index if isinstance(e, ColumnRef) else None for e in keys],
            "include": list(statement.include),
        },
    )
    session.change_catalog(CreateRelation(relation))
    return Result("CREATE INDEX")


def check_owner(owner: Relation, statement: CreateIndex) -> None:
    """What an index may be on. Raises: 42809, 0A000."""
    if not owner.stored:
        raise WrongObjectType(
            f'cannot create index on relation "{owner.name}"',
            detail=f"This operation is not supported for {owner.kind_words}s.",
            hint="Index a table or a materialized view.",
        )
    if statement.unique and owner.kind != "table":
        raise FeatureNotSupported(
            f'cannot create unique index on materialized view "{owner.name}"',
            hint="A view's rows follow from its query; leave UNIQUE out.",
        )


def check_key(key: Expr, tree: exp.Expression) -> None:
    """Raises: UndefinedObject (42704) for a type without an order."""
    if key.type.kind in (Kind.JSON, Kind.JSONB) or not can_order(key.type.arrow):
        raise UndefinedObject(
            f'data type {key.type} has no default operator class for access method "btree"',
            position=position_of(tree),
            hint="Index an expression that takes a plain value out of it.",
        )


def index_name(
    session: Session, statement: CreateIndex, owner: Relation, keys: tuple[Expr, ...]
) -> str:
    """The name that is written, or PostgreSQL's: table_column_idx, with a number if it is taken.

    Raises: FeatureNotSupported (0A000) for another schema than the table's.
    """
    if statement.name is not None:
        if len(statement.name) > 1 and statement.name[-2] != owner.schema:
            raise FeatureNotSupported(
                "an index is in the schema of its table",
                hint="Write the name of the index without a schema.",
            )
        return statement.name[-1]
    parts = [owner.name, *(c.name for c in key_columns(keys, owner))]
    base = "_".join(parts)[: NAME_MAX - 8]
    name, n = f"{base}_idx", 0
    while session.catalog.get(owner.schema, name) is not None:
        n += 1
        name = f"{base}_idx{n}"
    return name


def key_columns(keys: tuple[Expr, ...], owner: Relation) -> Schema:
    """The index's own columns, named as PostgreSQL does: expressions are "expr", "expr1", …"""
    columns: list[Column] = []
    count = 0
    for key in keys:
        if isinstance(key, ColumnRef):
            columns.append(owner.columns[key.index])
            continue
        columns.append(Column(f"expr{count or ''}", key.type))
        count += 1
    return Schema(tuple(columns))


CREATE = Handler(run, tag="CREATE INDEX")
