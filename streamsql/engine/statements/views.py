"""CREATE VIEW and CREATE MATERIALIZED VIEW."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from streamsql.core.errors import (
    DuplicateTable,
    FeatureNotSupported,
    InvalidParameterValue,
    InvalidTableDefinition,
    ObjectNotInPrerequisiteState,
    StreamSqlError,
    WrongObjectType,
)
from streamsql.core.schema import Schema
from streamsql.dialect.statements import CreateView
from streamsql.engine import views
from streamsql.engine.api import Result
from streamsql.engine.catalog import describe
from streamsql.engine.ddl import CreateRelation, DdlOp
from streamsql.engine.definitions import check_options
from streamsql.engine.names import qualified, referenced_relations
from streamsql.engine.rebind import bind_query_of, rebind_all, view_columns, with_properties
from streamsql.engine.redefine import Redefinition
from streamsql.engine.relations import Relation
from streamsql.engine.statements import jobs, recursive_views
from streamsql.engine.statements.handler import Handler, Types
from streamsql.engine.storage.retention import check_retention
from streamsql.engine.system_feeds import system_oids
from streamsql.engine.views import VIEW_OPTIONS
from streamsql.functions.expressions import Literal
from streamsql.plan.nodes import BoundQuery

if TYPE_CHECKING:
    from streamsql.engine.engine import Engine
    from streamsql.engine.session import Session


def run(
    session: Session, statement: CreateView, values: tuple[Literal, ...], declared: Types
) -> Result:
    """Bind the definition, then build it (materialized) or only remember it."""
    session.check_writable()
    statement = recursive_views.resolved(session, statement)
    kind = "materialized_view" if statement.materialized else "view"
    tag = "CREATE MATERIALIZED VIEW" if statement.materialized else "CREATE VIEW"
    schema, name = session.catalog.creation_name(statement.name, session.search_path)
    old = session.catalog.get(schema, name)
    if old is not None:
        if statement.if_not_exists:
            session.notice(f'relation "{name}" already exists, skipping', sqlstate="42P07")
            return Result(tag)
        if not statement.or_replace:
            raise DuplicateTable(f'relation "{name}" already exists')
        if old.kind != kind:
            words = kind.replace("_", " ")
            raise WrongObjectType(f'"{name}" is not a {words}')
    check_statement(statement)
    relation, bound = bind_definition(session, statement, schema, name, kind, old)
    for text in bound.notices:
        session.notice(text)
    bases = tuple(session.catalog.relations[oid] for oid in sorted(relation.depends_on))
    if old is not None:
        session.change_catalog_all(replacing(session, old, relation, bases))
    elif not (statement.materialized and jobs.make(session, relation, bases)):
        session.change_catalog(CreateRelation(relation, bases=bases))
    return Result(tag)


def check_statement(statement: CreateView) -> None:
    """Options and clauses. Raises: 0A000, 22023, 42601."""
    if statement.temporary:
        raise FeatureNotSupported(
            "temporary views are not supported", hint="Create the view and drop it afterwards."
        )
    if not statement.materialized:
        check_options(statement.options, (), "a view")
        return
    check_options(statement.options, VIEW_OPTIONS, "a materialized view")
    check_retention(statement.options)
    on_error = statement.options.get("on_error", "skip")
    if on_error not in ("skip", "null", "fail"):
        raise InvalidParameterValue(
            f'invalid value for option "on_error": "{on_error}"',
            hint="Available values: skip, null, fail.",
        )
    for option in views.RECURSION_OPTIONS:
        value = statement.options.get(option, "1")
        if not value.isdigit() or not 1 <= int(value) <= 1_000_000_000:
            raise InvalidParameterValue(
                f'invalid value for option "{option}": "{value}"',
                hint="A whole number from 1 to 1000000000.",
            )
    if "state_ttl" in statement.options:
        raise FeatureNotSupported(
            "option state_ttl is not supported yet",
            hint="Filter old rows with WHERE t > now() - INTERVAL '...' instead.",
        )


def open_feeds(engine: Engine, bases: Iterable[Relation]) -> None:
    """System relations among what a view reads are followed from now on."""
    oids = system_oids(engine.catalog, [r.oid for r in bases])
    if oids:
        engine.call(lambda: engine.feeds.open(oids))


def bind_definition(
    session: Session,
    statement: CreateView,
    schema: str,
    name: str,
    kind: str,
    old: Relation | None,
) -> tuple[Relation, BoundQuery]:
    """The catalog entry of the view, with what the plan says about its rows."""
    scope = session.scope
    meaning = referenced_relations(statement.query, scope.relation)
    oid = session.catalog.oids.allocate(2)
    relation = Relation(
        oid=oid if old is None else old.oid,
        type_oid=oid + 1 if old is None else old.type_oid,
        schema=schema,
        name=name,
        kind=kind,
        columns=Schema(()),
        sql=statement.sql,
        context=scope.definition,
        statement=statement,
        query=statement.query,
        references={text: r.oid for text, r in meaning.items()},
        options=dict(statement.options),
        emit=statement.emit,
    )
    bound = bind_query_of(relation, scope)
    columns = view_columns(statement, bound.plan.schema)
    if statement.materialized:
        for other in meaning.values():
            if other.temporary:
                raise FeatureNotSupported(
                    f'materialized view "{name}" can not read temporary table "{other.name}"',
                    hint="Use a permanent table.",
                )
        relation = with_properties(relation, bound)
        open_feeds(session.engine, meaning.values())
    return replace(relation, columns=columns, query=qualified(statement.query, meaning)), bound


def replacing(
    session: Session, old: Relation, new: Relation, bases: tuple[Relation, ...]
) -> list[DdlOp]:
    """CREATE OR REPLACE: the new definition, and all that reads the view bound and filled anew. A
    view that was suspended runs again, and with it what was suspended because of it.

    Raises: InvalidTableDefinition (42P16) with the dependents that can not be bound any more.
    """
    catalog = session.catalog
    every = catalog.drop_set([old])
    if any(r.oid in new.depends_on for r in every):
        raise InvalidTableDefinition(f'infinite recursion detected in relation "{old.name}"')
    redefinition = Redefinition(catalog)
    for layout in catalog.layouts.values():
        if layout.of == old.oid:
            redefinition.layouts[layout.oid] = layout.follow(old.columns, new.columns)
    stopped = {} if old.suspended is None else {"suspended": old.suspended}
    redefinition.change(replace(new, extra={**new.extra, **stopped}))  # it runs when it is filled
    failing: list[tuple[Relation, str]] = []
    again: list[DdlOp] = [CreateRelation(new, replaces=True, bases=bases)]
    gone: set[int] = set()
    for reader in [r for r in reversed(every) if r.oid != old.oid]:
        if reader.depends_on & gone:
            gone.add(reader.oid)
            continue
        try:
            again += rebound_reader(redefinition, reader, old, new)
        except StreamSqlError as error:
            failing.append((reader, error.message))
            gone.add(reader.oid)
    if failing:
        raise InvalidTableDefinition(
            f"cannot replace {describe(old)} because other objects depend on it",
            detail="\n".join(
                f"{describe(r)} depends on {describe(old)}: {why}" for r, why in failing
            ),
            hint="Drop or replace the dependent objects first, or keep the columns they use.",
        )
    return [redefinition.operation(), *again]


def rebound_reader(
    redefinition: Redefinition, reader: Relation, old: Relation, new: Relation
) -> tuple[DdlOp, ...]:
    """One dependent over the new definition. Raises: errors of binding, 55000."""
    if reader.kind == "index":
        if int(reader.extra["of"]) == old.oid:
            redefinition.move_index(reader, new)
        return ()
    if reader.kind == "subscription":
        followed = int(reader.extra["of"])  # the view itself, or one of those above it
        was, now = (c.relations[followed] for c in (redefinition.before, redefinition.after))
        if now.columns.types != was.columns.types:
            raise ObjectNotInPrerequisiteState("it keeps changes of other columns")
        redefinition.carry_subscription(reader)
        return ()
    before = redefinition.after.relations[reader.oid].columns
    ops = rebind_all(redefinition, [reader])
    after = redefinition.after.relations[reader.oid]
    if after.suspended == old.oid and after.kind == "materialized_view":
        extra = {k: v for k, v in after.extra.items() if k != "suspended"}
        return (CreateRelation(replace(after, extra=extra), replaces=True),)
    if after.suspended is not None and after.columns.types != before.types:
        raise ObjectNotInPrerequisiteState(
            "it is suspended, and the rows it holds have other columns"
        )
    return ops


HANDLER = Handler(run, tag="CREATE VIEW")
