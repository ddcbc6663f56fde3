"""COMMENT ON: relations, columns, indexes, constraints, schemas, the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsql.core.errors import (
    FeatureNotSupported,
    InsufficientPrivilege,
    UndefinedColumn,
    UndefinedObject,
    UndefinedSchema,
)
from streamsql.dialect.statements import Comment, Name
from streamsql.engine.api import Result
from streamsql.engine.catalog import DATABASE, DATABASE_OID
from streamsql.engine.ddl import SetComment
from streamsql.engine.relations import Key
from streamsql.engine.statements.common import lookup
from streamsql.engine.statements.handler import Handler, Types
from streamsql.functions.expressions import Literal

if TYPE_CHECKING:
    from streamsql.engine.session import Session

KINDS = {
    "table": "table",
    "source": "source",
    "view": "view",
    "materialized view": "materialized_view",
    "index": "index",
    "subscription": "subscription",
}


def run(
    session: Session, statement: Comment, values: tuple[Literal, ...], declared: Types
) -> Result:
    """COMMENT ON kind name IS 'text' | NULL."""
    session.check_writable()
    oid, attnum = target(session, statement)
    session.change_catalog(SetComment(oid, attnum, statement.text))
    return Result("COMMENT")


def target(session: Session, statement: Comment) -> tuple[int, int]:
    """(OID, number of the column or 0) of what the comment is about.

    Raises: 42P01, 42703, 42704, 42809, 3F000, 42501.
    """
    kind, name = statement.kind, statement.name
    if kind == "schema":
        if name[-1] not in session.catalog.schemas:
            raise UndefinedSchema(f'schema "{name[-1]}" does not exist')
        return session.catalog.schemas[name[-1]].oid, 0
    if kind == "database":
        if name[-1] != DATABASE:
            raise UndefinedObject(f'database "{name[-1]}" does not exist')
        return DATABASE_OID, 0
    if kind == "constraint":
        return constraint(session, name, statement.column or "").constraint_oid, 0
    if kind == "index":
        key = key_index(session, name)
        if key is not None:
            return key.index_oid, 0
    if kind == "column":
        return column(session, name, statement.column or "")
    if kind not in KINDS:
        raise UndefinedObject(f'{kind} "{".".join(name)}" does not exist')
    relation = lookup(session, name, kinds=(KINDS[kind],))
    return relation.oid, 0


def column(session: Session, name: Name, written: str) -> tuple[int, int]:
    """A column of a relation. Raises: UndefinedColumn (42703)."""
    relation = lookup(session, name)
    if relation.kind == "system":
        full = f"{relation.schema}.{relation.name}"
        raise InsufficientPrivilege(f'permission denied: "{full}" is a system relation')
    attnum = relation.columns.index(written) + 1
    if not attnum:
        raise UndefinedColumn(f'column "{written}" of relation "{relation.name}" does not exist')
    return relation.oid, attnum


def key_index(session: Session, name: Name) -> Key | None:
    """The PRIMARY KEY or UNIQUE constraint whose index has this name."""
    schemas = name[-2:-1] or session.search_path
    for relation in session.catalog.relations.values():
        if relation.schema in schemas:
            for key in relation.keys:
                if key.name == name[-1]:
                    return key
    return None


def constraint(session: Session, table: Name, name: str) -> Key:
    """A constraint of a table. Raises: UndefinedObject (42704), 0A000 for a CHECK."""
    from streamsql.dialect.statements import CreateTable

    relation = lookup(session, table)
    for key in relation.keys:
        if key.name == name:
            return key
    definition = relation.statement
    if isinstance(definition, CreateTable) and any(c.name == name for c in definition.checks):
        raise FeatureNotSupported(
            "comments on check constraints are not supported",
            hint="Comment on the table or on the column.",
        )
    raise UndefinedObject(f'constraint "{name}" for table "{relation.name}" does not exist')


COMMENT = Handler(run, tag="COMMENT")
