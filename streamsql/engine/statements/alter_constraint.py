"""ALTER TABLE … ADD CONSTRAINT, DROP CONSTRAINT; several actions in one statement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from streamsql.core.errors import (
    DuplicateObject,
    FeatureNotSupported,
    ObjectNotInPrerequisiteState,
    StreamSqlError,
    UndefinedObject,
)
from streamsql.dialect.statements import Alter, CheckDef, CreateTable, UniqueDef
from streamsql.engine.binding import BindScope
from streamsql.engine.constraints import free_name, unique_constraints
from streamsql.engine.definition_text import DefinitionText
from streamsql.engine.definitions import program_of
from streamsql.engine.pgcatalog.names import quote_ident
from streamsql.engine.redefine import Moves, Redefinition, read_definition
from streamsql.engine.relations import Key, Relation
from streamsql.engine.side_check import Validator
from streamsql.engine.statements.alter_table import (
    anew,
    cannot_edit,
    only_table,
    positions_moved,
    readable,
    rebuild_readers,
    redefined,
    submit,
    with_new_rules,
)
from streamsql.engine.statements.tables import new_key, not_null

if TYPE_CHECKING:
    from streamsql.engine.session import Session


def constraint_names(relation: Relation, scope: BindScope) -> list[str]:
    """Of all constraints of a table."""
    checks = [name for name, _ in program_of(relation, scope).checks]
    return checks + [key.name for key in relation.keys]


# --- ADD ------------------------------------------------------------------------------------------
def add_constraint(session: Session, statement: Alter, relation: Relation) -> None:
    """ADD [CONSTRAINT n] CHECK (…) | UNIQUE (…): the rows that are there have to keep it."""
    only_table(relation, "add a constraint to")
    scope = BindScope(session.catalog, relation.context)
    taken = constraint_names(relation, scope)
    span = statement.arguments["span"]
    given: CheckDef | UniqueDef = statement.arguments.get("check") or statement.arguments["unique"]
    written, start = span.text(statement), span.start - statement.position
    named = given.name
    if named is None:
        named = default_name(relation, given, scope, written, start, taken)
        written, start = (
            f"CONSTRAINT {quote_ident(named)} {written}",
            start - len(f"CONSTRAINT {quote_ident(named)} "),
        )
    elif named in taken:
        raise DuplicateObject(f'constraint "{named}" for relation "{relation.name}" already exists')
    base = replace(relation, sql=readable(relation))
    sql = DefinitionText(base.sql).with_column(written)
    if sql is None:
        raise cannot_edit(relation)
    with positions_moved(start - sql.index(written)):
        new = with_new_rules(redefined(base, sql, relation.columns))
        assert isinstance(new.statement, CreateTable)
        found = unique_constraints(
            new.statement, relation.name, relation.columns, relation.primary_key
        )
        keys = [columns for name, columns in found if name == named]
        if isinstance(given, UniqueDef) and keys:
            key = new_key(session, named, keys[0], primary=False)
            unique = relation.unique_keys
            if not_null(relation.columns, key.columns) and key.columns not in unique:
                unique = (*unique, key.columns)
            new = replace(new, keys=(*relation.keys, key), unique_keys=unique)
        program_of(new, scope)
    validate_here(session, relation, new)
    redefinition = Redefinition(session.catalog)
    redefinition.change(new)
    redefinition.carry({relation.oid: Moves.none(len(relation.columns))})
    submit(session, redefinition)


def default_name(
    relation: Relation,
    given: CheckDef | UniqueDef,
    scope: BindScope,
    written: str,
    start: int,
    taken: list[str],
) -> str:
    """PostgreSQL's name for a constraint without one. Raises: errors of the condition."""
    if isinstance(given, UniqueDef):
        return free_name(f"{relation.name}_{'_'.join(given.columns)}_key", taken)
    base = replace(relation, sql=readable(relation))
    sql = DefinitionText(base.sql).with_column(written)
    if sql is None:
        raise cannot_edit(relation)
    with positions_moved(start - sql.index(written)):
        checks = program_of(redefined(base, sql, relation.columns), scope).checks
    return next(name for name, _ in reversed(checks) if name not in taken)


def validate_here(session: Session, old: Relation, new: Relation) -> None:
    """In a transaction, the rows that it sees are asked at once (and all rows at COMMIT). Raises:
    23505, 23514; 55000 if it has written to the table."""
    transaction = session.transaction
    if transaction is None or transaction.collecting:
        return
    if transaction.writes.get(old.oid):
        raise ObjectNotInPrerequisiteState(
            f'cannot ALTER TABLE "{old.name}" because it has been written to in this transaction',
            hint="COMMIT before the ALTER TABLE.",
        )
    known = set(old.keys)
    scope = BindScope(session.catalog, old.context)
    before = {name for name, _ in program_of(old, scope).checks}
    checks = frozenset(name for name, _ in program_of(new, scope).checks if name not in before)
    keys = [k for k in new.keys if k not in known]
    wanted = Validator(new, checks, keys, session.catalog)
    rows = session.read_view().tables([old.oid])[old.oid]
    for batch in rows.to_batches():
        wanted.take(batch)
    wanted.finish(rows)


# --- DROP -----------------------------------------------------------------------------------------
def drop_constraint(session: Session, statement: Alter, relation: Relation) -> None:
    """DROP CONSTRAINT [IF EXISTS] n."""
    only_table(relation, "drop a constraint of")
    scope = BindScope(session.catalog, relation.context)
    name, taken = statement.arguments["constraint"], constraint_names(relation, scope)
    if name not in taken:
        text = f'constraint "{name}" of relation "{relation.name}" does not exist'
        if statement.arguments.get("if_exists"):
            session.notice(f"{text}, skipping")
            return
        raise UndefinedObject(text)
    if any(k.primary and k.name == name for k in relation.keys):
        raise FeatureNotSupported(
            "dropping a primary key is not supported",
            hint=anew(" without it"),
        )
    keys = tuple(k for k in relation.keys if k.name != name)
    new = with_new_rules(without_constraint(relation, name, keys, scope))
    unique = tuple(k.columns for k in keys if k.primary or not_null(relation.columns, k.columns))
    new = replace(new, keys=keys, unique_keys=unique)
    redefinition = Redefinition(session.catalog)
    redefinition.change(new)
    if unique == relation.unique_keys:
        redefinition.carry({relation.oid: Moves.none(len(relation.columns))})
        submit(session, redefinition)
    else:  # plans may have relied on it
        submit(session, redefinition, also=rebuild_readers(redefinition, relation))


def without_constraint(
    relation: Relation, name: str, keys: tuple[Key, ...], scope: BindScope
) -> Relation:
    """The table's definition without a constraint: the shortest cut after which only that is
    gone. Raises: FeatureNotSupported (0A000)."""
    sql = relation.sql
    wanted = sorted(n for n in constraint_names(relation, scope) if n != name)
    for cut in cuts(DefinitionText(sql)):
        try:
            found = read_definition(cut, relation)
            if not isinstance(found, CreateTable):
                continue
            assert isinstance(relation.statement, CreateTable)
            same = [replace(c, unique=False) for c in found.columns] == [
                replace(c, unique=False) for c in relation.statement.columns
            ]
            if not same or found.primary_key != relation.statement.primary_key:
                continue
            if found.watermark != relation.statement.watermark:
                continue
            new = redefined(relation, cut, relation.columns)
            uniques = unique_constraints(found, relation.name, relation.columns, ())
        except StreamSqlError:
            continue
        left = [n for n, _ in program_of(new, scope).checks]
        left += [n for n, columns in uniques if columns != relation.primary_key]
        left += [k.name for k in keys if k.primary]
        if sorted(left) == wanted:
            return new
    raise cannot_edit(relation)


def cuts(text: DefinitionText) -> list[str]:
    """The text without one entry of its body, or without some words in a column's entry; the
    shorter cuts first."""
    found: list[tuple[int, str]] = []
    for item in text.items or ():
        if item.column is None:
            cut = text.without_item(item)
            if cut is not None:
                found.append((len(text.sql) - len(cut), cut))
            continue
        n = len(item.tokens)
        for first in range(1, n):
            if item.tokens[first].key in ("CONSTRAINT", "CHECK", "UNIQUE"):
                for last in range(first, n):
                    start, end = item.tokens[first - 1].end, item.tokens[last].end
                    found.append((end - start, text.sql[:start] + text.sql[end:]))
    return [cut for _, cut in sorted(found, key=lambda f: f[0])]


# --- several --------------------------------------------------------------------------------------
PASSES = ("drop_constraint", "drop_column", "type", "add_column", "alter_column", "add_constraint")
"""The order in which PostgreSQL carries several actions out, whatever the order they stand in."""


def several(
    session: Session,
    statement: Alter,
    relation: Relation,
    actions: dict[str, Callable[[Any, Alter, Relation], None]],
) -> None:
    """Actions separated by commas: all of them, in one version, or none."""
    only_table(relation, "ALTER several things of")

    def place(found: tuple[str, dict[str, Any]]) -> int:
        action, given = found
        if given.get("default", 0) is None or given.get("not_null") is False:
            action = "drop_column"
        return PASSES.index("type" if "type" in given else action)

    ordered = sorted(statement.arguments["actions"], key=place)
    own = session.transaction is None
    if own:
        session.transaction = session.new_transaction(collecting=True)
    try:
        for action, arguments in ordered:
            now = session.catalog.relations[relation.oid]
            single = replace(statement, action=action, arguments=arguments)
            actions[action](session, single, now)
        transaction = session.transaction
    finally:
        if own:
            session.transaction = None
    assert transaction is not None
    if own:
        session.change_catalog_all(list(transaction.ddl))
