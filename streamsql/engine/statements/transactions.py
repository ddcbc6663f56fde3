"""BEGIN, COMMIT, ROLLBACK, SAVEPOINT."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsql.core.errors import NoActiveTransaction
from streamsql.dialect.statements import Transaction
from streamsql.engine.api import Result
from streamsql.engine.statements.handler import Handler, Types
from streamsql.functions.expressions import Literal

if TYPE_CHECKING:
    from streamsql.engine.session import Session


def run(
    session: Session, statement: Transaction, values: tuple[Literal, ...], declared: Types
) -> Result:
    """One transaction statement."""
    action = statement.action
    if action == "begin":
        session.begin(read_only=statement.read_only)
        return Result("BEGIN")
    if action == "commit":
        return commit(session)
    if action == "rollback":
        if session.transaction is None:
            no_transaction(session)
        session.end_transaction()
        return Result("ROLLBACK")
    return savepoint(session, statement)


def commit(session: Session) -> Result:
    """COMMIT; of a failed transaction it is a ROLLBACK, as in PostgreSQL."""
    transaction = session.transaction
    if transaction is None:
        no_transaction(session)
        return Result("COMMIT")
    if transaction.failed:
        session.end_transaction()
        return Result("ROLLBACK")
    session.commit_transaction()
    return Result("COMMIT")


def no_transaction(session: Session) -> None:
    """PostgreSQL only warns."""
    session.notice("there is no transaction in progress", severity="WARNING", sqlstate="25P01")


def savepoint(session: Session, statement: Transaction) -> Result:
    """SAVEPOINT, RELEASE, ROLLBACK TO."""
    transaction = session.transaction
    name = statement.name or ""
    words = {
        "savepoint": "SAVEPOINT",
        "release": "RELEASE SAVEPOINT",
        "rollback_to": "ROLLBACK TO SAVEPOINT",
    }[statement.action]
    if transaction is None or transaction.implicit:
        raise NoActiveTransaction(f"{words} can only be used in transaction blocks")
    if statement.action == "savepoint":
        if transaction.failed:
            from streamsql.core.errors import InFailedTransaction

            raise InFailedTransaction(
                "current transaction is aborted, commands ignored until end of transaction block"
            )
        transaction.mark(name, session.variables.snapshot())
        return Result("SAVEPOINT")
    if statement.action == "release":
        transaction.release(name)
        return Result("RELEASE")
    mark = transaction.rollback_to(name)
    session.variables.restore(mark.variables)
    return Result("ROLLBACK")


HANDLER = Handler(run, tag="BEGIN", in_failed=True)
