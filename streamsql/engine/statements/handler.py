"""What a statement's handler is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streamsql.core.collector import paused_for
from streamsql.core.errors import SerializationFailure
from streamsql.core.types import SqlType
from streamsql.dialect import position_of_name
from streamsql.dialect.statements import Delete, Insert, Statement, Update
from streamsql.engine.api import ResultColumn
from streamsql.functions.expressions import Literal

if TYPE_CHECKING:
    from streamsql.engine.session import Session

Types = list[SqlType | None]
"""Declared types of $1, $2, …; None = to be deduced."""

Run = Callable[[Any, Any, tuple[Literal, ...], Types], Any]
"""(session, statement, parameter values, their types) → Result | CopyIn | (CopyOut, Result)."""


@dataclass(frozen=True)
class Description:
    """columns: None without a result set. parameter_oids: see `Prepared`."""

    columns: tuple[ResultColumn, ...] | None = None
    parameter_types: tuple[SqlType, ...] = ()
    parameter_oids: tuple[int, ...] = ()


Describe = Callable[[Any, Any, Types], Description]


def _no_result(session: Session, statement: Any, declared: Types) -> Description:
    return Description()


@dataclass(frozen=True)
class Handler:
    """run: does it. describe: its types without running it. in_failed: allowed in a failed
    transaction."""

    run: Run
    describe: Describe = _no_result
    tag: str = ""
    in_failed: bool = False


DEFINITION_ATTEMPTS = 20


def run_handler(
    session: Session, handler: Handler, statement: Any, values: tuple[Literal, ...], types: Types
) -> Any:
    """Run a statement. Outside of a transaction it is run again if a definition has changed between
    its binding and its rows: nobody has seen anything of it yet.

    Raises: what it raises.
    """
    for attempt in range(DEFINITION_ATTEMPTS):
        alone = session.transaction is None
        known, said = session.engine.catalog.version, len(session.notices)
        try:
            with paused_for(statement.sql):
                return handler.run(session, statement, values, types)
        except SerializationFailure:
            unchanged = session.engine.catalog.version == known
            if not alone or unchanged or attempt + 1 == DEFINITION_ATTEMPTS:
                raise
            del session.notices[said:]
    raise AssertionError("unreachable")


def returns(*columns: tuple[str, SqlType]) -> Describe:
    """Describe for statements with a fixed result."""
    described = Description(tuple(ResultColumn(name, type_) for name, type_ in columns))

    def describe(session: Session, statement: Any, declared: Types) -> Description:
        return described

    return describe


def result_columns(pairs: Sequence[tuple[str, SqlType]]) -> tuple[ResultColumn, ...]:
    """Plain result columns."""
    return tuple(ResultColumn(name, type_) for name, type_ in pairs)


def written_at(statement: Statement, message: str) -> int | None:
    """Where a write names the relation or column that its error speaks of."""
    name = re.search(r'"([^"]+)"', message)
    if name is None or not isinstance(statement, Insert | Update | Delete):
        return None
    return position_of_name(statement.sql, name[1].rpartition(".")[2])
