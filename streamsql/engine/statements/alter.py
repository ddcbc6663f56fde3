"""ALTER TABLE, SOURCE, VIEW, MATERIALIZED VIEW and INDEX; PAUSE and RESUME.

Every action computes the new definitions on the session's thread (`redefine`, `alter_table`) and
hands them to the engine as one change of the catalog, which becomes visible in one version.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from streamsql.core.errors import (
    FeatureNotSupported,
    InsufficientPrivilege,
    ObjectNotInPrerequisiteState,
    SerializationFailure,
    UndefinedSchema,
    WrongObjectType,
)
from streamsql.dialect.statements import Alter
from streamsql.engine.api import Result
from streamsql.engine.catalog import PROTECTED_SCHEMAS, describe
from streamsql.engine.definition_text import DefinitionText
from streamsql.engine.pgcatalog.names import quote_ident
from streamsql.engine.redefine import Moves, Redefinition, read_definition
from streamsql.engine.relations import Relation
from streamsql.engine.statements import alter_constraint, alter_options, alter_table, drop_column
from streamsql.engine.statements.handler import Handler, Types
from streamsql.functions.expressions import Literal

if TYPE_CHECKING:
    from streamsql.engine.session import Session

KINDS: dict[str, tuple[str, ...]] = {
    "table": ("table", "view", "materialized_view", "source", "index"),
    "source": ("source",),
    "view": ("view", "materialized_view"),
    "materialized view": ("materialized_view",),
    "index": ("index",),
    "subscription": ("subscription",),
}
"""ALTER <kind> → the kinds of relations it may be about. ALTER TABLE renames anything, as in
PostgreSQL; what needs a table is checked by the action."""

ATTEMPTS = 10


def run(session: Session, statement: Alter, values: tuple[Literal, ...], declared: Types) -> Result:
    """ALTER kind [IF EXISTS] n action."""
    session.check_writable()
    tag = f"ALTER {statement.kind.upper()}"
    action = ACTIONS.get(statement.action)
    if statement.kind not in KINDS or action is None:
        raise FeatureNotSupported(
            f"{tag} is not supported",
            hint="Drop the object and create it again.",
        )
    for attempt in range(ATTEMPTS):
        found = session.catalog.resolve(statement.name, session.search_path)
        kinds = KINDS[statement.kind] if found is None else ()  # for the message
        if found is None and statement.arguments.get("if_exists"):
            name = ".".join(statement.name)
            kind = "subscription" if kinds == ("subscription",) else "relation"
            session.notice(f'{kind} "{name}" does not exist, skipping')
            return Result(tag)
        relation = session.catalog.lookup(statement.name, session.search_path, kinds=kinds)
        check_kind(relation, statement)
        try:
            action(session, statement, relation)
            return Result(tag)
        except SerializationFailure:  # definitions or rows changed meanwhile: look again
            if session.transaction is not None or attempt + 1 == ATTEMPTS:
                raise
    raise AssertionError("unreachable")


def check_kind(relation: Relation, statement: Alter) -> None:
    """Raises: 42501, 42809 with the right statement as hint."""
    if relation.kind == "system":
        name = f"{relation.schema}.{relation.name}"
        raise InsufficientPrivilege(f'permission denied: "{name}" is a system relation')
    if relation.kind not in KINDS[statement.kind]:
        article = "an" if statement.kind[0] in "aeiou" else "a"
        words = relation.kind_words
        raise WrongObjectType(
            f'"{relation.name}" is not {article} {statement.kind}',
            hint=f"Use ALTER {words.upper()}.",
        )


# --- names ----------------------------------------------------------------------------------------
def rename(session: Session, statement: Alter, relation: Relation) -> None:
    """RENAME TO."""
    change_names(session, {relation.oid: (relation.schema, statement.arguments["new_name"])})


def set_schema(session: Session, statement: Alter, relation: Relation) -> None:
    """SET SCHEMA."""
    schema = statement.arguments["schema"]
    if schema not in session.catalog.schemas:
        raise UndefinedSchema(f'schema "{schema}" does not exist')
    if schema in PROTECTED_SCHEMAS:
        raise InsufficientPrivilege(f"permission denied for schema {schema}")
    if relation.temporary or relation.kind == "index":
        raise FeatureNotSupported(
            f"cannot move {describe(relation)} to another schema",
            hint="An index moves with its table; temporary tables stay in their session.",
        )
    if schema != relation.schema:
        change_names(session, {relation.oid: (schema, relation.name)})


def swap_with(session: Session, statement: Alter, relation: Relation) -> None:
    """SWAP WITH: the two exchange their names; who reads them goes on reading the same rows."""
    other = session.catalog.lookup(statement.arguments["other"], session.search_path)
    if other.kind != relation.kind or other.kind in ("index", "subscription"):
        raise WrongObjectType(
            f"cannot swap {describe(relation)} with {describe(other)}",
            hint="Both have to be tables, sources, views or materialized views.",
        )
    if relation.temporary != other.temporary:
        raise FeatureNotSupported(
            "cannot swap a temporary table with a permanent one", hint="Rename them one by one."
        )
    if other.oid != relation.oid:
        change_names(
            session,
            {
                relation.oid: (other.schema, other.name),
                other.oid: (relation.schema, relation.name),
            },
        )


def change_names(session: Session, names: dict[int, tuple[str, str]]) -> None:
    """Relations get new names, all at once; what names them is adapted."""
    redefinition = Redefinition(session.catalog)
    relations = [session.catalog.relations[oid] for oid in names]
    redefinition.change(*(named(r, *names[r.oid]) for r in relations))
    redefinition.carry({r.oid: Moves.none(len(r.columns)) for r in relations})
    session.change_catalog(redefinition.operation())


def named(relation: Relation, schema: str, name: str) -> Relation:
    """The relation under another name, in its text too."""
    text = DefinitionText(relation.sql)
    written = quote_ident(name)
    if text.name_is_qualified or schema != relation.schema:
        written = f"{quote_ident(schema)}.{written}"
    sql = text.renamed(written)
    return replace(
        relation, schema=schema, name=name, sql=sql, statement=read_definition(sql, relation)
    )


def owner(session: Session, statement: Alter, relation: Relation) -> None:
    """OWNER TO: accepted, objects have no owners."""
    session.notice("OWNER TO has no effect: objects have no owners")


# --- views ----------------------------------------------------------------------------------------
def only_materialized(relation: Relation, what: str) -> None:
    """Raises: WrongObjectType (42809)."""
    if relation.kind != "materialized_view":
        raise WrongObjectType(
            f"cannot {what} {describe(relation)}",
            hint="Materialized views and sources can be suspended.",
        )


def suspend(session: Session, statement: Alter, relation: Relation) -> None:
    """SUSPEND: the view, and all that reads it, stay at this version; a source reads no more."""
    if relation.kind == "source" or (relation.kind == "table" and relation.connector):
        alter_options.pause_source(session, relation, paused=True)
        return
    only_materialized(relation, "suspend")
    if relation.suspended is not None:
        session.notice(f'materialized view "{relation.name}" is already suspended, skipping')
        return
    also = [r for r in session.catalog.drop_set([relation]) if r.kind == "materialized_view"]
    going = [r for r in also if r.suspended is None]
    for other in going:
        if other.oid != relation.oid:
            session.notice(f"suspend cascades to {describe(other)}")
    mark_suspended(session, going, relation.oid)


def resume(session: Session, statement: Alter, relation: Relation) -> None:
    """RESUME: the view, and what was suspended with it, are brought up to date in one version."""
    if relation.kind == "source" or (relation.kind == "table" and relation.connector):
        alter_options.pause_source(session, relation, paused=False)
        return
    only_materialized(relation, "resume")
    if relation.suspended is None:
        session.notice(f'materialized view "{relation.name}" is not suspended, skipping')
        return
    if relation.suspended != relation.oid:
        cause = session.catalog.relations[relation.suspended]
        raise ObjectNotInPrerequisiteState(
            f'materialized view "{relation.name}" is suspended because it reads {describe(cause)}',
            hint=f"Run ALTER MATERIALIZED VIEW {quote_ident(cause.name)} RESUME.",
        )
    every = session.catalog.user_relations()
    mark_suspended(session, [r for r in every if r.suspended == relation.oid], None)


def mark_suspended(session: Session, views: list[Relation], cause: int | None) -> None:
    """Write into the views who has suspended them."""
    redefinition = Redefinition(session.catalog)
    changed = []
    for view in views:
        extra = {k: v for k, v in view.extra.items() if k != "suspended"}
        if cause is not None:
            extra["suspended"] = cause
        changed.append(replace(view, extra=extra))
    redefinition.change(*changed)
    session.change_catalog(redefinition.operation())


def several(session: Session, statement: Alter, relation: Relation) -> None:
    """Actions separated by commas."""
    alter_constraint.several(session, statement, relation, ACTIONS)


Action = Callable[[Any, Alter, Relation], None]

ACTIONS: dict[str, Action] = {
    "rename": rename,
    "rename_column": alter_table.rename_column,
    "set_schema": set_schema,
    "swap_with": swap_with,
    "owner": owner,
    "set": alter_options.set_options,
    "suspend": suspend,
    "resume": resume,
    "add_column": alter_table.add_column,
    "drop_column": drop_column.drop_column,
    "alter_column": alter_table.alter_column,
    "add_constraint": alter_constraint.add_constraint,
    "drop_constraint": alter_constraint.drop_constraint,
    "several": several,
}

HANDLER = Handler(run, tag="ALTER TABLE")
