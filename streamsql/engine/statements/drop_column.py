"""ALTER TABLE … DROP COLUMN: what uses the column blocks, or goes with it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from streamsql.core.errors import (
    DependentObjectsStillExist,
    FeatureNotSupported,
    UndefinedColumn,
)
from streamsql.core.schema import Schema
from streamsql.dialect.statements import Alter
from streamsql.engine.binding import BindScope
from streamsql.engine.catalog import describe
from streamsql.engine.ddl import DdlOp, DropRelation, RowsChange
from streamsql.engine.definition_text import DefinitionText
from streamsql.engine.definitions import program_of
from streamsql.engine.rebind import rebind_all
from streamsql.engine.redefine import Moves, Redefinition, used_columns
from streamsql.engine.relations import Relation
from streamsql.engine.statements.alter_table import (
    anew,
    only_table,
    readable,
    redefined,
    submit,
)
from streamsql.functions.expressions import columns_used

if TYPE_CHECKING:
    from streamsql.engine.session import Session


def drop_column(session: Session, statement: Alter, relation: Relation) -> None:
    """DROP [COLUMN] [IF EXISTS] c [CASCADE]: views that use it block, or go with it."""
    only_table(relation, "drop a column of")
    name = statement.arguments["column"]
    if relation.columns.index(name) < 0:
        text = f'column "{name}" of relation "{relation.name}" does not exist'
        if statement.arguments.get("if_exists"):
            session.notice(f"{text}, skipping")
            return
        raise UndefinedColumn(text)
    cascade = bool(statement.arguments.get("cascade"))
    gone = columns_to_drop(session, relation, name, cascade=cascade)
    users, carriers = dependents_of_columns(session, relation, gone)
    first = drop_dependents(session, relation, name, users, cascade=cascade)
    catalog = session.catalog.fork()
    for op in first:
        op.apply(catalog)
    kept = [i for i, c in enumerate(relation.columns) if c.name not in gone]
    moves = Moves({old: new for new, old in enumerate(kept)})
    new = without_columns(relation, gone, moves)
    redefinition = Redefinition(catalog)
    redefinition.change(new)
    redefinition.carry({relation.oid: moves})
    again = rebuild(redefinition, relation, gone, carriers)
    submit(session, redefinition, RowsChange(relation.oid, tuple(kept)), again, first)


def columns_to_drop(session: Session, relation: Relation, name: str, *, cascade: bool) -> set[str]:
    """The column, and generated columns that need it. Raises: 0A000, 2BP01."""
    at = relation.columns.index(name)
    scope = BindScope(session.catalog, relation.context)
    program = program_of(relation, scope)
    gone = {at} | {i for i, e in program.generated if at in columns_used(e)}
    for i in sorted(gone):
        if any(i in key.columns for key in relation.keys):
            raise FeatureNotSupported(
                f'cannot drop column "{relation.columns[i].name}" of table "{relation.name}" '
                "because it is part of a key",
                hint=anew(" without it"),
            )
        timed = program.watermark is not None and i in columns_used(program.watermark)
        if timed or i == relation.watermark_column:
            raise FeatureNotSupported(
                f'cannot drop column "{relation.columns[i].name}" of table "{relation.name}" '
                "because its watermark needs it",
                hint=anew(" without it"),
            )
    lines = [
        f'column "{relation.columns[i].name}" of {describe(relation)} depends on column "{name}"'
        for i in sorted(gone - {at})
    ]
    if lines and not cascade:
        raise blocked(relation, name, lines)
    return {relation.columns[i].name for i in gone}


def blocked(relation: Relation, name: str, lines: list[str]) -> DependentObjectsStillExist:
    """2BP01, with PostgreSQL's words."""
    return DependentObjectsStillExist(
        f"cannot drop column {name} of {describe(relation)} because other objects depend on it",
        detail="\n".join(lines),
        hint="Use DROP ... CASCADE to drop the dependent objects too.",
    )


def dependents_of_columns(
    session: Session, relation: Relation, gone: set[str]
) -> tuple[list[Relation], list[Relation]]:
    """(those that use one of the columns, views whose operators only carry one along)."""
    catalog = session.catalog
    users, carriers = [], []
    places = {relation.columns.index(n) for n in gone}
    for dependent in catalog.dependents([relation.oid]):
        if dependent.kind == "index":
            if places & {p for p in dependent.extra["columns"] if p is not None} or any(
                n in dependent.sql for n in gone
            ):
                users.append(dependent)
            continue
        if dependent.kind == "subscription":  # goes on with the columns that are left
            continue
        logical, physical = used_columns(dependent, catalog, relation.oid)
        if logical & gone:
            users.append(dependent)
        elif physical & gone and dependent.kind == "materialized_view":
            carriers.append(dependent)
    return users, carriers


def drop_dependents(
    session: Session, relation: Relation, name: str, users: list[Relation], *, cascade: bool
) -> tuple[DdlOp, ...]:
    """The operations that drop them; an index goes with its column. Raises: 2BP01."""
    views = [u for u in users if u.kind != "index"]
    if views and not cascade:
        base = f"column {name} of {describe(relation)}"
        raise blocked(relation, name, [f"{describe(v)} depends on {base}" for v in views])
    if not users:
        return ()
    every = [r for r in session.catalog.drop_set(users) if r.kind != "index"]
    if len(every) == 1:
        session.notice(f"drop cascades to {describe(every[0])}")
    elif every:
        session.notice(f"drop cascades to {len(every)} other objects")
    return tuple(DropRelation(r.oid, r.name) for r in session.catalog.drop_set(users))


def without_columns(relation: Relation, gone: set[str], moves: Moves) -> Relation:
    """The table's new definition."""
    columns = Schema(tuple(c for c in relation.columns if c.name not in gone))
    base = replace(relation, sql=readable(relation))
    sql: str | None = base.sql
    for name in gone:
        text = DefinitionText(sql or "")
        item = text.item_of(name)
        sql = None if item is None else text.without_item(item)
    column = relation.watermark_column
    keys = tuple(
        replace(k, columns=tuple(moves.positions[c] for c in k.columns)) for k in relation.keys
    )
    unique = tuple(tuple(moves.positions[c] for c in k) for k in relation.unique_keys)
    return replace(
        redefined(base, sql, columns),
        keys=keys,
        unique_keys=unique,
        watermark_column=None if column is None else moves.positions[column],
        extra={**relation.extra, "layout": relation.layout + 1},
    )


def rebuild(
    redefinition: Redefinition, relation: Relation, gone: set[str], carriers: list[Relation]
) -> tuple[DdlOp, ...]:
    """Views that only carried a column along are filled anew without it, and with them all that
    reads them."""
    chosen = {v.oid for v in carriers}
    for view in carriers:
        found = redefinition.relations[view.oid]
        layout = redefinition.layouts[found.layouts[relation.oid]]
        redefinition.narrow(found, layout)
    every = redefinition.after.drop_set([redefinition.after.relations[o] for o in chosen])
    return rebind_all(redefinition, list(reversed(every)))
