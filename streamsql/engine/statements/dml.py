"""INSERT, UPDATE, DELETE, TRUNCATE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamsql.core.errors import FeatureNotSupported
from streamsql.dialect.statements import Delete, Insert, Truncate, Update
from streamsql.engine.api import Result
from streamsql.engine.dml.execute import carry_out, dml_result, state_of, target_table
from streamsql.engine.dml.insert import BoundInsert, InsertWrite, bind_insert
from streamsql.engine.dml.modify import (
    BoundModify,
    ModifyWrite,
    TruncateWrite,
    bind_delete,
    bind_update,
)
from streamsql.engine.dml.returning import view_before
from streamsql.engine.requests import CommitRequest
from streamsql.engine.statements.common import cached, lookup
from streamsql.engine.statements.handler import Description, Handler, Types
from streamsql.functions.expressions import Literal

if TYPE_CHECKING:
    from streamsql.engine.session import Session


# --- INSERT -----------------------------------------------------------------------------------
def bound_insert(session: Session, statement: Insert, declared: Types) -> BoundInsert:
    """The bound statement, from the cache. Raises: errors of binding."""
    relation = lookup(session, statement.table)
    updates = statement.on_conflict is not None and statement.on_conflict.action == "update"
    target_table(relation, what="insert into", changes_rows=updates)
    return cached(
        session,
        "insert",
        statement,
        declared,
        lambda: bind_insert(statement, relation, session.reading_scope, declared),
    )


def describe_insert(session: Session, statement: Insert, declared: Types) -> Description:
    """Parameter types come from the columns they are put into."""
    return _described(bound_insert(session, statement, declared))


def run_insert(
    session: Session, statement: Insert, values: tuple[Literal, ...], declared: Types
) -> Result:
    """INSERT … [ON CONFLICT …] [RETURNING …]."""
    bound = bound_insert(session, statement, declared)
    table = state_of(session, bound.relation)
    with view_before(session, bound.returning) as view:
        write = InsertWrite(session, bound, values)
        resolved = carry_out(session, table, write)
        return dml_result(session, "INSERT 0", resolved, bound.returning, values, view)


# --- UPDATE, DELETE ---------------------------------------------------------------------------
def bound_modify(session: Session, statement: Update | Delete, declared: Types) -> BoundModify:
    """The bound statement, from the cache. Raises: errors of binding."""
    relation = lookup(session, statement.table)
    update = isinstance(statement, Update)
    target_table(relation, what="update" if update else "delete from", changes_rows=True)
    table = state_of(session, relation)

    def make() -> BoundModify:
        if isinstance(statement, Update):
            return bind_update(statement, table, session.scope, declared)
        return bind_delete(statement, table, session.scope, declared)

    return cached(session, "modify", statement, declared, make)


def describe_modify(session: Session, statement: Update | Delete, declared: Types) -> Description:
    """Parameter types and the columns of RETURNING."""
    return _described(bound_modify(session, statement, declared))


def run_modify(
    session: Session, statement: Update | Delete, values: tuple[Literal, ...], declared: Types
) -> Result:
    """UPDATE … [FROM …] and DELETE … [USING …] with [RETURNING …]."""
    bound = bound_modify(session, statement, declared)
    table = state_of(session, bound.relation)
    tag = "DELETE" if bound.delete else "UPDATE"
    with view_before(session, bound.returning) as view:
        write = ModifyWrite(session, bound, values)
        resolved = carry_out(session, table, write)
        if bound.joined_returning is None:
            return dml_result(session, tag, resolved, bound.returning, values, view)
    assert write.joined is not None
    columns = bound.joined_returning.columns
    text = f"{tag} {resolved.affected}"
    return Result(text, columns, iter((write.joined,)), row_count=resolved.affected)


def _described(bound: BoundInsert | BoundModify) -> Description:
    returning: Any = bound.returning
    if isinstance(bound, BoundModify) and bound.joined_returning is not None:
        returning = bound.joined_returning
    columns = None if returning is None else returning.columns
    return Description(columns, bound.parameter_types)


# --- TRUNCATE ---------------------------------------------------------------------------------
def run_truncate(
    session: Session, statement: Truncate, values: tuple[Literal, ...], declared: Types
) -> Result:
    """TRUNCATE t, …: all of them in one tick."""
    session.check_writable()
    writes = []
    for name in statement.tables:
        relation = lookup(session, name)
        target_table(relation, what="truncate", changes_rows=True)
        if relation.connector is not None:
            raise FeatureNotSupported(
                f'cannot truncate table "{relation.name}", which a connector feeds',
                hint="Drop the table and create it again.",
            )
        writes.append((state_of(session, relation), TruncateWrite(relation)))
    if session.transaction is None:
        session.commit(CommitRequest([w for _, w in writes]))
    else:
        for table, write in writes:
            carry_out(session, table, write)
    return Result("TRUNCATE TABLE")


INSERT = Handler(run_insert, describe_insert, "INSERT")
UPDATE = Handler(run_modify, describe_modify, "UPDATE")
DELETE = Handler(run_modify, describe_modify, "DELETE")
TRUNCATE = Handler(run_truncate, tag="TRUNCATE TABLE")
