"""CREATE VIEW and CREATE MATERIALIZED VIEW."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from streamsql.core.errors import (
    DuplicateColumn,
    DuplicateTable,
    FeatureNotSupported,
    InvalidParameterValue,
    InvalidTableDefinition,
    SqlSyntaxError,
    WrongObjectType,
)
from streamsql.core.schema import Column, Schema
from streamsql.dialect.statements import CreateView
from streamsql.engine.api import Result
from streamsql.engine.catalog import describe
from streamsql.engine.ddl import CreateRelation
from streamsql.engine.definitions import check_options
from streamsql.engine.engine import refuse_system
from streamsql.engine.names import qualified, referenced_relations
from streamsql.engine.relations import Relation
from streamsql.engine.statements.handler import Handler, Types
from streamsql.engine.storage.retention import check_retention
from streamsql.engine.views import VIEW_OPTIONS, bind_view_query
from streamsql.functions.expressions import Literal
from streamsql.plan.nodes import BoundQuery

if TYPE_CHECKING:
    from streamsql.engine.session import Session


def run(
    session: Session, statement: CreateView, values: tuple[Literal, ...], declared: Types
) -> Result:
    """Bind the definition, then build it (materialized) or only remember it."""
    session.check_writable()
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
    if old is not None:
        check_replaceable(session, old, relation)
    session.change_catalog(CreateRelation(relation, replaces=old is not None))
    return Result(tag)


def check_statement(statement: CreateView) -> None:
    """Options and clauses. Raises: 0A000, 22023, 42601."""
    if statement.temporary:
        raise FeatureNotSupported(
            "temporary views are not supported", hint="Create the view and drop it afterwards."
        )
    if not statement.materialized:
        if statement.emit is not None:
            raise SqlSyntaxError("EMIT is only possible in a materialized view")
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
    if "state_ttl" in statement.options:
        raise FeatureNotSupported(
            "option state_ttl is not supported yet",
            hint="Filter old rows with WHERE t > now() - INTERVAL '...' instead.",
        )


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
    bound = bind_view_query(relation, scope) if statement.materialized else _plain(relation, scope)
    columns = view_columns(statement, bound.plan.schema)
    if statement.materialized:
        for other in meaning.values():
            refuse_system(other.kind)
            if other.temporary:
                raise FeatureNotSupported(
                    f'materialized view "{name}" can not read temporary table "{other.name}"',
                    hint="Use a permanent table.",
                )
        relation = with_properties(relation, bound)
    return replace(relation, columns=columns, query=qualified(statement.query, meaning)), bound


def _plain(relation: Relation, scope: object) -> BoundQuery:
    from streamsql.engine.binding import BindScope
    from streamsql.plan.binder import bind_query

    assert isinstance(scope, BindScope) and relation.query is not None
    return bind_query(relation.query, scope.context())


def with_properties(relation: Relation, bound: BoundQuery) -> Relation:
    """Keys, append-only and watermark column, as derived from the plan."""
    from streamsql.plan.optimizer import optimize
    from streamsql.plan.properties import append_only, unique_keys, watermark_columns

    plan = optimize(bound.plan)
    watermarks = sorted(watermark_columns(plan))
    final = relation.emit == "on_window_close"
    return replace(
        relation,
        unique_keys=tuple(sorted((tuple(sorted(k)) for k in unique_keys(plan)), key=len)),
        append_only=final or append_only(plan),
        watermark_column=watermarks[0] if watermarks else None,
    )


def view_columns(statement: CreateView, schema: Schema) -> Schema:
    """The view's columns under the names it gives them. Raises: 42601, 42701."""
    names = list(statement.columns)
    if len(names) > len(schema):
        raise SqlSyntaxError("CREATE VIEW specifies more column names than columns")
    names += schema.names[len(names) :]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise DuplicateColumn(
                f'column "{name}" specified more than once',
                hint="Give the columns names of their own with AS, or list them after the name.",
            )
    return Schema(tuple(Column(n, c.type, c.nullable) for n, c in zip(names, schema, strict=True)))


def check_replaceable(session: Session, old: Relation, new: Relation) -> None:
    """CREATE OR REPLACE: dependents must stay as they are. Raises: InvalidTableDefinition."""
    dependents = session.catalog.dependents([old.oid])
    if old.oid in new.depends_on:
        raise InvalidTableDefinition(f'infinite recursion detected in relation "{old.name}"')
    if not dependents:
        return
    if old.kind == "view" and all(d.kind == "view" for d in dependents):
        old_columns = old.columns.columns
        if new.columns.columns[: len(old_columns)] == old_columns:
            return
    raise InvalidTableDefinition(
        f"cannot replace {describe(old)} because other objects depend on it",
        detail="\n".join(f"{describe(d)} depends on {describe(old)}" for d in dependents),
        hint="Drop the dependent objects first, or create the view under another name.",
    )


HANDLER = Handler(run, tag="CREATE VIEW")
