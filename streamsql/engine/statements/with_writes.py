"""WITH whose CTEs write: all of it is one tick, and every part reads the tables as before it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from streamsql.core.delta import make_batch
from streamsql.core.errors import (
    FeatureNotSupported,
    InvalidColumnReference,
    SerializationFailure,
)
from streamsql.core.schema import Column, Schema
from streamsql.core.types import SqlType
from streamsql.dialect.statements import Statement, WithWrites, WriteCte
from streamsql.engine.api import Result, ResultColumn
from streamsql.engine.dml.given import Given
from streamsql.engine.names import parts_of, table_references
from streamsql.engine.statements.handler import Description, Handler, Types
from streamsql.functions.expressions import Literal

if TYPE_CHECKING:
    from streamsql.engine.session import Session

ATTEMPTS = 20
"""A statement by itself never fails because others write the same rows: it is run again."""


def run(
    session: Session, statement: WithWrites, values: tuple[Literal, ...], declared: Types
) -> Result:
    """The CTEs that write in their order, then the statement; one commit.

    Raises: what the parts raise; nothing of it is done then.
    """
    session.check_writable()
    _check_names(statement)
    if session.transaction is not None:
        return _run(session, statement, values, declared)
    for attempt in range(1, ATTEMPTS + 1):
        session.begin_implicit()
        try:
            result = _run(session, statement, values, declared)
            session.end_implicit(commit=True)
        except SerializationFailure:
            session.end_implicit(commit=False)
            if attempt == ATTEMPTS:
                raise
        except BaseException:
            session.end_implicit(commit=False)
            raise
        else:
            return result
    raise AssertionError("unreachable")


def _run(
    session: Session, statement: WithWrites, values: tuple[Literal, ...], declared: Types
) -> Result:
    from streamsql.engine.statements.registry import handler_of

    transaction = session.transaction
    assert transaction is not None
    transaction.pin()
    with _Reading(session, Given(writes=dict(transaction.writes))) as given:
        for cte in statement.ctes:
            part = _part(cte.statement, statement)
            result = handler_of(part).run(session, part, values, declared)
            if result.columns is not None:
                schema = _schema(cte, result.columns)
                batches = [make_batch(b.columns, schema.arrow, b.num_rows) for b in result.batches]
                given.add(cte.name, schema, pa.Table.from_batches(batches, schema.arrow))
        part = _part(statement.statement, statement)
        result = handler_of(part).run(session, part, values, declared)
        return dataclasses.replace(result, batches=iter(list(result.batches)))


def describe(session: Session, statement: WithWrites, declared: Types) -> Description:
    """The main statement's columns; a parameter has the type that the first part using it gives."""
    from streamsql.engine.statements.registry import handler_of

    _check_names(statement)
    types: list[SqlType | None] = list(declared)
    with _Reading(session, Given()) as given:
        for cte in statement.ctes:
            part = _part(cte.statement, statement)
            found = handler_of(part).describe(session, part, types)
            types = _merged(types, found.parameter_types, part)
            if found.columns is not None:
                schema = _schema(cte, found.columns)
                given.add(cte.name, schema, pa.Table.from_batches([], schema.arrow))
        part = _part(statement.statement, statement)
        found = handler_of(part).describe(session, part, types)
    types = _merged(types, found.parameter_types, part)
    from streamsql.engine.parameters import settle

    return Description(found.columns, settle(types))


def _part(part: Statement, whole: WithWrites) -> Statement:
    """A part with the text that its nodes' positions are offsets into."""
    return dataclasses.replace(part, sql=whole.sql, position=whole.position)


class _Reading:
    """Let the session read these relations for a while."""

    def __init__(self, session: Session, given: Given) -> None:
        self.session, self.given = session, given

    def __enter__(self) -> Given:
        self.before = self.session.given
        self.session.given = self.given
        return self.given

    def __exit__(self, *exc: object) -> None:
        self.session.given = self.before


def _schema(cte: WriteCte, columns: tuple[ResultColumn, ...]) -> Schema:
    """The columns of a CTE, renamed as it says. Raises: InvalidColumnReference (42P10)."""
    if len(cte.columns) > len(columns):
        raise InvalidColumnReference(
            f'WITH query "{cte.name}" has {len(columns)} columns available but'
            f" {len(cte.columns)} columns specified",
            position=cte.position or None,
        )
    names = [*cte.columns, *(c.name for c in columns[len(cte.columns) :])]
    return Schema(tuple(Column(n, c.type) for n, c in zip(names, columns, strict=True)))


def _check_names(statement: WithWrites) -> None:
    """Raises: FeatureNotSupported (0A000) for a reference to a CTE without RETURNING."""
    silent: set[str] = set()
    for cte in statement.ctes:
        _check_references(cte.statement, silent)
        if not _returns(cte.statement):
            silent.add(cte.name)
    _check_references(statement.statement, silent)


def _check_references(statement: Statement, silent: set[str]) -> None:
    for tree in trees(statement):
        for table in table_references(tree):
            parts = parts_of(table)
            if len(parts) == 1 and parts[0] in silent:
                raise FeatureNotSupported(
                    f'WITH query "{parts[0]}" does not have a RETURNING clause',
                    position=table.this.meta.get("start"),
                    hint="Add RETURNING * to it.",
                )


def _returns(statement: Any) -> bool:
    tree = getattr(statement, "tree", None)
    if tree is not None:
        return tree.args.get("returning") is not None
    return bool(statement.returning)


def trees(value: Any) -> Iterator[exp.Expression]:
    """Every expression tree in a statement."""
    if isinstance(value, exp.Expression):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from trees(item)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from trees(getattr(value, field.name))


def _merged(
    types: list[SqlType | None], found: tuple[SqlType, ...], part: Statement
) -> list[SqlType | None]:
    """`types` with those of the parameters that this part uses."""
    used = {int(p.this.name) for tree in trees(part) for p in tree.find_all(exp.Parameter)}
    merged = [*types, *[None] * (len(found) - len(types))]
    for i, type_ in enumerate(found):
        if merged[i] is None and i + 1 in used:
            merged[i] = type_
    return merged


HANDLER = Handler(run, describe, "SELECT")
