"""CHECK and UNIQUE of a table's definition: their names, and what they say about its columns."""

from __future__ import annotations

from collections.abc import Iterable

from streamsql.core.errors import (
    DuplicateColumn,
    DuplicateObject,
    FeatureNotSupported,
    UndefinedColumn,
)
from streamsql.core.schema import Schema
from streamsql.dialect.statements import CreateTable
from streamsql.engine.binding import BindScope
from streamsql.functions.expressions import Expr, Subquery, columns_used, walk
from streamsql.plan.binder.context import NOW_REFUSED


def bind_checks(
    statement: CreateTable, schema: Schema, scope: BindScope
) -> tuple[tuple[str, Expr], ...]:
    """(name, condition over the user's columns) of each CHECK, PostgreSQL's names where none is
    written.

    Raises: errors of binding, DuplicateObject (42710), FeatureNotSupported (0A000).
    """
    from streamsql.plan.binder import bind_predicate

    found: list[tuple[str, Expr]] = []
    taken = {c.name for c in statement.checks if c.name is not None}
    for check in statement.checks:
        context = scope.context(volatile_allowed=False, now=NOW_REFUSED)
        expr = bind_predicate(check.condition, schema, context, statement.name[-1], clause="CHECK")
        refuse_subquery(
            expr,
            "check constraint",
            check.position or None,
            hint="Compare with columns of the same row, or filter in a view.",
        )
        name = check.name
        if name is None:
            used = sorted(columns_used(expr))
            middle = f"_{schema[used[0]].name}" if len(used) == 1 else ""
            name = free_name(f"{statement.name[-1]}{middle}_check", taken)
            taken.add(name)
        elif any(name == other for other, _ in found):
            raise DuplicateObject(
                f'constraint "{name}" for relation "{statement.name[-1]}" already exists',
                position=check.position or None,
            )
        found.append((name, expr))
    return tuple(found)


def refuse_subquery(
    expr: Expr,
    where: str,
    position: int | None = None,
    hint: str = "Only columns of the same row and constants can stand there.",
) -> None:
    """Raises: FeatureNotSupported (0A000), with PostgreSQL's words."""
    if any(isinstance(e, Subquery) for e in walk(expr)):
        raise FeatureNotSupported(f"cannot use subquery in {where}", position=position, hint=hint)


def free_name(name: str, taken: Iterable[str]) -> str:
    """The name, with a number behind it if it is taken."""
    number, free = 0, name
    while free in taken:
        number += 1
        free = f"{name}{number}"
    return free


def unique_constraints(
    statement: CreateTable, table: str, columns: Schema, primary: tuple[int, ...]
) -> list[tuple[str, tuple[int, ...]]]:
    """(name, column positions) of each UNIQUE beside the primary key.

    Raises: UndefinedColumn (42703), DuplicateColumn (42701), FeatureNotSupported (0A000).
    """
    found: list[tuple[str, tuple[int, ...]]] = []
    for unique in statement.uniques:
        key = tuple(columns.index(name) for name in unique.columns)
        for name, at in zip(unique.columns, key, strict=True):
            if at < 0:
                raise UndefinedColumn(f'column "{name}" named in key does not exist')
            if key.count(at) > 1:
                raise DuplicateColumn(f'column "{name}" appears twice in unique constraint')
        default = f"{table}_{'_'.join(unique.columns)}_key"
        found.append((unique.name or default, key))
    for i, column in enumerate(statement.columns):
        if column.unique and all(key != (i,) for _, key in found):
            found.append((f"{table}_{column.name}_key", (i,)))
    kept = [(name, key) for name, key in found if key != primary]
    if kept and "connector" in statement.options:
        raise FeatureNotSupported(
            "UNIQUE of a table that a connector feeds is not supported",
            hint="Make these columns the PRIMARY KEY: the last row of a key stays.",
        )
    return kept
