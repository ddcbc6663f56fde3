"""SET, RESET, SHOW of variables, DISCARD."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsql.core.errors import ActiveTransaction
from streamsql.core.types import TEXT
from streamsql.dialect.statements import Discard, SetVariable, ShowVariable
from streamsql.engine.api import Result, ResultColumn
from streamsql.engine.settings import find
from streamsql.engine.statements.common import rows_result
from streamsql.engine.statements.handler import Description, Handler, Types
from streamsql.engine.storage import retention
from streamsql.engine.without_effect import foreign_without_effect, without_effect
from streamsql.functions.expressions import Literal

if TYPE_CHECKING:
    from streamsql.engine.session import Session

ALL_COLUMNS = (("name", TEXT), ("setting", TEXT), ("description", TEXT))
CLOCK = "streamsql.clock"
VERSION = "streamsql.version"
SERVER_WIDE = (CLOCK, retention.SETTING, retention.MEMORY)


def run_set(
    session: Session, statement: SetVariable, values: tuple[Literal, ...], declared: Types
) -> Result:
    """SET [LOCAL] name = value, RESET name, RESET ALL."""
    if statement.name == "all" and statement.value is None:
        session.variables.reset_all()
        return Result("RESET")
    name = find(statement.name).name
    if name in SERVER_WIDE:
        set_server_wide(session, name, statement.value)
        return Result("SET" if statement.value is not None else "RESET")
    if statement.local and session.transaction is None:
        session.notice(
            "SET LOCAL can only be used in transaction blocks",
            severity="WARNING",
            sqlstate="25P01",
        )
        return Result("SET")
    stored = session.set_variable(name, statement.value, local=statement.local)
    if statement.value is not None:
        tell_without_effect(session, statement.name, stored)
    return Result("SET" if statement.value is not None else "RESET")


def tell_without_effect(session: Session, name: str, stored: str) -> None:
    """A NOTICE, or with Flink's settings a WARNING, where a setting changes nothing."""
    told = without_effect(name, stored)
    if told is not None:
        session.notice(told[0], hint=told[1])
    if session.variables.get("dialect") == "flink":
        foreign = foreign_without_effect(name)
        if foreign is not None:
            session.notice(foreign[0], severity="WARNING", sqlstate="01000", hint=foreign[1])


def set_server_wide(session: Session, name: str, value: str | None) -> None:
    """A variable of the server: it is set for all sessions, at once, and survives a restart."""
    stored = session.variables.set(name, value)
    committer = session.engine.committer
    if name == CLOCK:
        session.engine.call(lambda: committer.set_clock(stored))
    else:
        session.engine.call(lambda: committer.set_retention(name, stored))


def value_of(session: Session, name: str) -> str:
    """What SHOW gives."""
    found = find(name).name
    if found in SERVER_WIDE:
        return session.engine.settings()[found]
    return str(session.version) if found == VERSION else session.variables.get(name)


def describe_show(session: Session, statement: ShowVariable, declared: Types) -> Description:
    """SHOW x has one column, named as PostgreSQL spells the variable."""
    if statement.name == "all":
        return Description(tuple(ResultColumn(n, t) for n, t in ALL_COLUMNS))
    return Description((ResultColumn(find(statement.name).name, TEXT),))


def run_show(
    session: Session, statement: ShowVariable, values: tuple[Literal, ...], declared: Types
) -> Result:
    """SHOW name, SHOW ALL."""
    if statement.name == "all":
        rows = [(name, value_of(session, name), text) for name, _, text in session.variables.all()]
        return rows_result("SHOW", ALL_COLUMNS, rows)
    name = find(statement.name).name
    return rows_result("SHOW", [(name, TEXT)], [(value_of(session, statement.name),)])


def run_discard(
    session: Session, statement: Discard, values: tuple[Literal, ...], declared: Types
) -> Result:
    """DISCARD ALL | PLANS | TEMP | SEQUENCES."""
    what = statement.what.lower()
    if what == "all":
        if session.transaction is not None and not session.transaction.implicit:
            raise ActiveTransaction("DISCARD ALL cannot run inside a transaction block")
        session.close_cursors(held=True)
        session.prepared.clear()
        session.variables.reset_all()
    if what in ("all", "temp", "temporary"):
        session.drop_temporary()
    return Result(f"DISCARD {what.upper()}")


SET = Handler(run_set, tag="SET")
SHOW = Handler(run_show, describe_show, "SHOW")
DISCARD = Handler(run_discard, tag="DISCARD")
