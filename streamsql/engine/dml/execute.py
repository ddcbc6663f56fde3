"""Carrying out a write: at once as a tick of its own, or inside a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from streamsql.core.errors import (
    FeatureNotSupported,
    ObjectNotInPrerequisiteState,
    UndefinedTable,
    WrongObjectType,
)
from streamsql.core.schema import Schema
from streamsql.engine.api import Result
from streamsql.engine.dml.conflicts import Resolved
from streamsql.engine.dml.pending import TableImage
from streamsql.engine.dml.returning import BoundReturning
from streamsql.engine.reads.view import ReadView
from streamsql.engine.relations import Relation
from streamsql.engine.requests import CommitRequest, StaleRead, conflict, was_altered
from streamsql.engine.storage.table import TableState
from streamsql.functions.expressions import Literal

if TYPE_CHECKING:
    from streamsql.engine.session import Session


class ResolvingWrite(Protocol):
    """A `Write` that remembers what it came to."""

    relation_id: int
    schema: Schema
    rules: int
    resolved: Resolved | None

    def resolve(self, image: TableImage) -> Resolved: ...

    def evaluate(self) -> None: ...


def target_table(relation: Relation, *, what: str, changes_rows: bool) -> None:
    """Whether DML may write there. what: "insert into", "update", "delete from".

    Raises: WrongObjectType (42809), ObjectNotInPrerequisiteState (55000), 0A000.
    """
    name = relation.name
    if relation.kind == "view":
        raise ObjectNotInPrerequisiteState(
            f'cannot {what} view "{name}"', hint="Write to the tables that the view reads."
        )
    if relation.kind == "materialized_view":
        raise WrongObjectType(
            f'cannot change materialized view "{name}"',
            hint="Write to the tables that the view reads.",
        )
    if relation.kind == "source":
        raise FeatureNotSupported(
            f'cannot {what} source "{name}"',
            hint="Rows of a source come from its connector; use CREATE TABLE to write rows.",
        )
    if relation.kind == "system":
        raise WrongObjectType(f'cannot change system relation "{name}"')
    if changes_rows and relation.append_only:
        raise FeatureNotSupported(
            f'cannot {what} append-only table "{name}"',
            hint="Create the table without APPEND ONLY.",
        )


def state_of(session: Session, relation: Relation) -> TableState:
    """The table's rows as this session sees them. Raises: UndefinedTable (42P01)."""
    table = session.table(relation.oid)
    if table is None:
        raise UndefinedTable(f'relation "{relation.name}" does not exist')
    return table


def carry_out(session: Session, table: TableState, write: ResolvingWrite) -> Resolved:
    """Do it; returns what became of the rows. Raises: errors of the user, 40001."""
    session.check_writable()
    transaction = session.transaction
    if transaction is None:
        session.commit(CommitRequest([write]))
        assert write.resolved is not None
        return write.resolved
    transaction.pin()
    pending = transaction.pending(table)
    if was_altered(write, transaction.catalog.relations.get(write.relation_id, table.relation)):
        raise conflict()
    with session.engine.lock:
        try:
            resolved = write.resolve(transaction.image(table))
        except StaleRead:
            raise conflict() from None
    table.check_indexes(resolved.insert, transaction.dropped)
    transaction.writes[table.relation.oid] = pending.add(resolved.retract, resolved.insert)
    return resolved


def dml_result(
    session: Session,
    tag: str,
    resolved: Resolved,
    returning: BoundReturning | None,
    values: tuple[Literal, ...],
    view: ReadView | None = None,
) -> Result:
    """The command's result: a tag, and the rows of RETURNING. view: what its subqueries read."""
    if returning is None:
        return Result(f"{tag} {resolved.affected}", row_count=resolved.affected)
    rows = resolved.insert if resolved.returning is None else resolved.returning
    batch = returning.run(session, rows, values, view)
    return Result(
        f"{tag} {resolved.affected}",
        returning.columns,
        iter((batch,)),
        row_count=resolved.affected,
    )
