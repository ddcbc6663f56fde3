"""CREATE SCHEMA, DROP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsql.core.errors import (
    DependentObjectsStillExist,
    DuplicateSchema,
    InsufficientPrivilege,
    ReservedName,
    UndefinedObject,
    UndefinedSchema,
    UndefinedTable,
    WrongObjectType,
)
from streamsql.dialect.statements import CreateSchema, Drop
from streamsql.engine.api import Result
from streamsql.engine.catalog import (
    PROTECTED_SCHEMAS,
    SchemaEntry,
    describe,
)
from streamsql.engine.ddl import CreateSchemaOp, DdlOp, DropRelation, DropSchemaOp
from streamsql.engine.relations import Relation
from streamsql.engine.statements.handler import Handler, Types
from streamsql.functions.expressions import Literal

if TYPE_CHECKING:
    from streamsql.engine.session import Session

_KINDS = {
    "table": "table",
    "source": "source",
    "view": "view",
    "materialized view": "materialized_view",
    "index": "index",
    "subscription": "subscription",
}


def run_create(
    session: Session, statement: CreateSchema, values: tuple[Literal, ...], declared: Types
) -> Result:
    """CREATE SCHEMA [IF NOT EXISTS]."""
    session.check_writable()
    name = statement.name
    if name in session.catalog.schemas:
        if statement.if_not_exists:
            session.notice(f'schema "{name}" already exists, skipping', sqlstate="42P06")
            return Result("CREATE SCHEMA")
        raise DuplicateSchema(f'schema "{name}" already exists')
    if name.startswith("pg_"):
        raise ReservedName(
            f'unacceptable schema name "{name}"',
            detail='The prefix "pg_" is reserved for system schemas.',
        )
    entry = SchemaEntry(session.catalog.oids.allocate(), name)
    session.change_catalog(CreateSchemaOp(entry))
    return Result("CREATE SCHEMA")


def run_drop(
    session: Session, statement: Drop, values: tuple[Literal, ...], declared: Types
) -> Result:
    """DROP kind name, … [CASCADE]: all of them or none."""
    session.check_writable()
    tag = f"DROP {statement.kind.upper()}"
    if statement.kind == "schema":
        return drop_schemas(session, statement, tag)
    if statement.kind not in _KINDS:
        return drop_other(session, statement, tag)
    roots: list[Relation] = []
    for name in statement.names:
        found = session.catalog.resolve(name, session.search_path)
        if found is None and statement.kind == "materialized view" and stop_making(session, name):
            continue
        if found is None:
            missing(session, statement, name)
        else:
            if not (statement.made_by_query and found.kind == "materialized_view"):
                check_kind(found, statement.kind)
            roots.append(found)
    if roots:
        session.change_catalog_all(drop_operations(session, roots, cascade=statement.cascade))
    return Result(tag)


def stop_making(session: Session, name: tuple[str, ...]) -> bool:
    """DROP of a view that is being made: its job is cancelled. Whether there was one."""
    jobs = session.engine.jobs
    schemas = name[-2:-1] or session.search_path
    found = next((j for s in schemas if (j := jobs.named(s, name[-1])) is not None), None)
    if found is None:
        return False
    jobs.cancel((found.id,), "the view was dropped while it was being created")
    return True


def missing(session: Session, statement: Drop, name: tuple[str, ...]) -> None:
    """A name that does not exist: an error, or a NOTICE with IF EXISTS."""
    words = {"table": "table", "source": "source"}.get(statement.kind, statement.kind)
    text = f'{words} "{".".join(name)}" does not exist'
    if not statement.if_exists:
        if statement.kind in ("index", "subscription"):
            check_constraint_index(session, name)
            raise UndefinedObject(text)
        raise UndefinedTable(text)
    session.notice(f"{text}, skipping")


def check_constraint_index(session: Session, name: tuple[str, ...]) -> None:
    """Raises: DependentObjectsStillExist (2BP01) for the index of a constraint."""
    for relation in session.catalog.user_relations():
        for key in relation.keys:
            if key.name == name[-1]:
                raise DependentObjectsStillExist(
                    f"cannot drop index {key.name} because constraint {key.name} on"
                    f" {describe(relation)} requires it",
                    hint="A constraint's index goes with its table.",
                )


def check_kind(relation: Relation, kind: str) -> None:
    """Raises: WrongObjectType (42809) with the right statement as hint."""
    if relation.kind == "system":
        name = f"{relation.schema}.{relation.name}"
        raise InsufficientPrivilege(f'permission denied: "{name}" is a system relation')
    if relation.kind != _KINDS[kind]:
        article = "an" if kind[0] in "aeiou" else "a"
        words = relation.kind_words
        own = "an" if words[0] in "aeiou" else "a"
        raise WrongObjectType(
            f'"{relation.name}" is not {article} {kind}',
            hint=f"Use DROP {words.upper()} to remove {own} {words}.",
        )


def drop_operations(session: Session, roots: list[Relation], *, cascade: bool) -> list[DdlOp]:
    """The operations in order, dependents first. Raises: 2BP01 without CASCADE."""
    catalog = session.catalog
    if not cascade:
        for root in roots:
            catalog.check_droppable(root, roots)
    every = catalog.drop_set(roots)
    chosen = {r.oid for r in roots}
    also = [r for r in every if r.oid not in chosen and r.kind != "index"]
    if len(also) == 1:
        session.notice(f"drop cascades to {describe(also[0])}")
    elif also:
        session.notice(f"drop cascades to {len(also)} other objects")
    return [DropRelation(r.oid, r.name) for r in every]


def drop_schemas(session: Session, statement: Drop, tag: str) -> Result:
    """DROP SCHEMA; with CASCADE everything in it goes too."""
    ops: list[DdlOp] = []
    for parts in statement.names:
        name = parts[-1]
        if name not in session.catalog.schemas:
            if not statement.if_exists:
                raise UndefinedSchema(f'schema "{name}" does not exist')
            session.notice(f'schema "{name}" does not exist, skipping')
            continue
        if name in PROTECTED_SCHEMAS:
            raise InsufficientPrivilege(f"permission denied for schema {name}")
        inside = [r for r in session.catalog.relations.values() if r.schema == name]
        if inside and not statement.cascade:
            raise DependentObjectsStillExist(
                f"cannot drop schema {name} because other objects depend on it",
                detail="\n".join(f"{describe(r)} depends on schema {name}" for r in inside),
                hint="Use DROP ... CASCADE to drop the dependent objects too.",
            )
        if inside:
            ops += drop_operations(session, inside, cascade=True)
        ops.append(DropSchemaOp(name))
    if ops:
        session.change_catalog_all(ops)
    return Result(tag)


def drop_other(session: Session, statement: Drop, tag: str) -> Result:
    """Kinds of objects that can not be created yet: only IF EXISTS can succeed."""
    for parts in statement.names:
        name = ".".join(parts)
        if not statement.if_exists:
            raise UndefinedObject(f'{statement.kind} "{name}" does not exist')
        session.notice(f'{statement.kind} "{name}" does not exist, skipping')
    return Result(tag)


CREATE_SCHEMA = Handler(run_create, tag="CREATE SCHEMA")
DROP = Handler(run_drop, tag="DROP")
