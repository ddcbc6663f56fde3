"""ALTER … SET (option = value), and sources that pause and go on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from streamsql.core.errors import InvariantViolation, WrongObjectType
from streamsql.dialect.statements import Alter, CreateTable, CreateView
from streamsql.engine.catalog import describe
from streamsql.engine.ddl import CreateRelation, DdlOp
from streamsql.engine.definition_text import DefinitionText
from streamsql.engine.definitions import check_options, watermark_policy
from streamsql.engine.rebind import rebind_all
from streamsql.engine.redefine import Redefinition, read_definition
from streamsql.engine.relations import Relation
from streamsql.engine.statements.views import check_statement

if TYPE_CHECKING:
    from streamsql.engine.session import Session

NO_EFFECT = (
    "parallelism",
    "backfill_parallelism",
    "source_rate_limit",
    "backfill_rate_limit",
    "streaming_rate_limit",
    "dml_rate_limit",
    "sink_rate_limit",
)
"""Options of RisingWave's clusters: there is one engine, which takes what it can."""

TABLE_SETTABLE = ("idle_timeout", "max_future", "retention")


def set_options(session: Session, statement: Alter, relation: Relation) -> None:
    """SET (option = value, …): in the text of the definition too."""
    options: dict[str, str] = {}
    for name, value in statement.arguments["options"].items():
        if name.lower() in NO_EFFECT:
            session.notice(f'option "{name}" has no effect: there is one engine')
        else:
            options[name] = value
    if not options:
        return
    if relation.kind in ("view", "index", "subscription"):
        raise WrongObjectType(f"cannot set options of {describe(relation)}")
    new = with_options(relation, options)
    redefinition = Redefinition(session.catalog)
    redefinition.change(new)
    ops: list[DdlOp] = []
    if isinstance(new.statement, CreateView):
        check_statement(new.statement)
        if new.options.get("on_error") != relation.options.get("on_error"):
            ops = rebuilt_with(redefinition, new)
    else:
        check_options(options, TABLE_SETTABLE, f"ALTER {relation.kind_words.upper()} SET")
        watermark_policy(new.options)
        check_table(new)
    session.change_catalog_all([redefinition.operation(), *ops])


def check_table(relation: Relation) -> None:
    """Raises: InvalidParameterValue (22023) for a retention that says nothing."""
    from streamsql.engine.storage.retention import check_retention

    check_retention(relation.options)


def rebuilt_with(redefinition: Redefinition, view: Relation) -> list[DdlOp]:
    """The view and all that reads it are filled anew: what errors do is part of its operators."""
    if view.suspended is not None:
        return []
    every = redefinition.after.drop_set([view])
    readers = [r for r in reversed(every) if r.oid != view.oid]
    return [CreateRelation(view, replaces=True), *rebind_all(redefinition, readers)]


def with_options(relation: Relation, options: dict[str, str]) -> Relation:
    """The relation with these options, in its text too."""
    sql = DefinitionText(relation.sql).with_options(options)
    read = read_definition(sql, relation)
    wanted = {**relation.options, **options}
    if not isinstance(read, CreateTable | CreateView) or dict(read.options) != wanted:
        raise InvariantViolation(
            f"the options of {describe(relation)} were not found in its definition",
            hint="Create it anew with the options wanted.",
        )
    return replace(relation, sql=sql, statement=read, options=wanted)


def pause_source(session: Session, relation: Relation, *, paused: bool) -> None:
    """SUSPEND and RESUME of a source: whether it is read; the position stays."""
    if bool(relation.extra.get("paused")) == paused:
        state = "already suspended" if paused else "not suspended"
        session.notice(f"{describe(relation)} is {state}, skipping")
        return
    extra = {k: v for k, v in relation.extra.items() if k != "paused"}
    if paused:
        extra["paused"] = True
    redefinition = Redefinition(session.catalog)
    redefinition.change(replace(relation, extra=extra))
    session.change_catalog(redefinition.operation())
