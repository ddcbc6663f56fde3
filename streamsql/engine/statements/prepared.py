"""PREPARE, EXECUTE, DEALLOCATE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamsql.core.errors import (
    DuplicatePreparedStatement,
    InvalidPreparedStatementName,
    SqlSyntaxError,
)
from streamsql.core.schema import Schema
from streamsql.dialect.statements import Deallocate, ExecuteStatement, PrepareStatement
from streamsql.engine.api import Prepared, Result
from streamsql.engine.reads.plans import freeze_expression
from streamsql.engine.statements.handler import Description, Handler, Types
from streamsql.functions.evaluator import Evaluator
from streamsql.functions.expressions import Literal
from streamsql.functions.literals import from_arrow_scalar

if TYPE_CHECKING:
    from streamsql.engine.session import Session


def run_prepare(
    session: Session, statement: PrepareStatement, values: tuple[Literal, ...], declared: Types
) -> Result:
    """PREPARE name [(types)] AS statement."""
    if statement.name in session.prepared:
        raise DuplicatePreparedStatement(f'prepared statement "{statement.name}" already exists')
    prepared = session.describe(statement.statement, list(statement.types))
    session.prepared[statement.name] = prepared
    return Result("PREPARE")


def find(session: Session, name: str) -> Prepared:
    """Raises: InvalidPreparedStatementName (26000)."""
    found: Prepared | None = session.prepared.get(name)
    if found is None:
        raise InvalidPreparedStatementName(f'prepared statement "{name}" does not exist')
    return found


def describe_execute(session: Session, statement: ExecuteStatement, declared: Types) -> Description:
    """The columns of what was prepared, bound anew: the catalog may have changed."""
    prepared = find(session, statement.name)
    again = session.describe(prepared.statement, list(prepared.parameter_types))
    return Description(again.columns)


def run_execute(
    session: Session, statement: ExecuteStatement, values: tuple[Literal, ...], declared: Types
) -> Any:
    """EXECUTE name (arguments)."""
    prepared = find(session, statement.name)
    wanted, given = len(prepared.parameter_types), len(statement.arguments)
    if wanted != given:
        raise SqlSyntaxError(
            f'wrong number of parameters for prepared statement "{statement.name}"',
            detail=f"Expected {wanted} parameters but got {given}.",
        )
    arguments = _evaluate(session, statement, prepared)
    from streamsql.engine.statements.registry import handler_of

    handler = handler_of(prepared.statement)
    types: Types = list(prepared.parameter_types)
    return handler.run(session, prepared.statement, arguments, types)


def _evaluate(
    session: Session, statement: ExecuteStatement, prepared: Prepared
) -> tuple[Literal, ...]:
    from streamsql.core.delta import make_batch
    from streamsql.engine.binding import bind_scalar

    context = session.scope.context()
    blank = make_batch([], Schema(()).arrow, 1)
    now_us = session.now_us()
    found: list[Literal] = []
    for tree, type_ in zip(statement.arguments, prepared.parameter_types, strict=True):
        expr = bind_scalar(tree, Schema(()), context, target=type_)
        expr = freeze_expression(expr, (), now_us)
        if isinstance(expr, Literal):
            found.append(expr)
            continue
        value = Evaluator([expr], Schema(())).run(blank, now_us, session.timezone)[0]
        found.append(from_arrow_scalar(value[0], type_))
    return tuple(found)


def run_deallocate(
    session: Session, statement: Deallocate, values: tuple[Literal, ...], declared: Types
) -> Result:
    """DEALLOCATE name | ALL."""
    if statement.name is None:
        session.prepared.clear()
        return Result("DEALLOCATE ALL")
    find(session, statement.name)
    del session.prepared[statement.name]
    return Result("DEALLOCATE")


PREPARE = Handler(run_prepare, tag="PREPARE")
EXECUTE = Handler(run_execute, describe_execute, "EXECUTE")
DEALLOCATE = Handler(run_deallocate, tag="DEALLOCATE")
