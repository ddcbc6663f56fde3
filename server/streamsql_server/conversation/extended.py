"""Prepared statements and portals of the extended protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from streamsql.core.errors import (
    DuplicateCursor,
    DuplicatePreparedStatement,
    InvalidCursorName,
    InvalidPreparedStatementName,
    ProtocolViolation,
    SqlSyntaxError,
)
from streamsql.engine.api import Prepared, ResultColumn, SessionApi
from streamsql_server.conversation.parameters import decode_parameter, spread_formats
from streamsql_server.conversation.results import RowStream
from streamsql_server.encoding.rows import TEXT
from streamsql_server.protocol.errors import positions_from
from streamsql_server.protocol.frontend import Bind, Parse


@dataclass(frozen=True)
class WireStatement:
    """A statement that Parse made. position: where it begins in the text, behind blanks and
    comments. prepared None: an empty text."""

    name: str
    sql: str
    position: int
    prepared: Prepared | None
    parameter_oids: tuple[int, ...]

    @property
    def columns(self) -> tuple[ResultColumn, ...] | None:
        return self.prepared.columns if self.prepared else None


@dataclass
class Portal:
    """A statement with its parameters, ready to run or in the middle of it.

    rows: set while rows may be left; done: it ran to its end.
    """

    name: str
    statement: WireStatement
    parameters: tuple[Any, ...]
    formats: list[int]
    rows: RowStream | None = None
    done: bool = False

    def close(self) -> None:
        """Lets go of an unfinished result."""
        if self.rows is not None:
            self.rows.close()
            self.rows = None


class Prepareds:
    """The prepared statements and portals of one connection."""

    def __init__(self, session: SessionApi) -> None:
        self._session = session
        self._statements: dict[str, WireStatement] = {}
        self._portals: dict[str, Portal] = {}

    # --- statements -------------------------------------------------------------------------------
    def parse(self, message: Parse) -> None:
        """Raises: DuplicatePreparedStatement (42P05), SqlSyntaxError (42601) for several
        statements, and whatever binding raises."""
        if message.name and message.name in self._statements:
            raise DuplicatePreparedStatement(f'prepared statement "{message.name}" already exists')
        if not message.name:
            self._statements.pop("", None)
        parsed = self._session.parse(message.sql)
        if len(parsed) > 1:
            raise SqlSyntaxError("cannot insert multiple commands into a prepared statement")
        prepared, oids = None, message.parameter_oids
        sql, position = "", 0
        if parsed and not is_empty(parsed[0]):
            with positions_from(parsed[0].position):
                prepared = self._session.prepare(parsed[0], message.parameter_oids)
            oids = _parameter_oids(message.parameter_oids, prepared)
            sql, position = parsed[0].sql, parsed[0].position
        self._statements[message.name] = WireStatement(message.name, sql, position, prepared, oids)

    def statement(self, name: str) -> WireStatement:
        """Raises: InvalidPreparedStatementName (26000)."""
        found = self._statements.get(name)
        if found is None:
            raise InvalidPreparedStatementName(
                f'prepared statement "{name}" does not exist'
                if name
                else "unnamed prepared statement does not exist"
            )
        return found

    def has_statement(self, name: str) -> bool:
        """Is there one of that name?"""
        return name in self._statements

    def close_statement(self, name: str) -> None:
        """Forgets a statement, if it is there. Portals made from it live on."""
        self._statements.pop(name, None)

    def close_statements(self) -> None:
        """Forgets all."""
        self._statements.clear()

    # --- portals ----------------------------------------------------------------------------------
    def bind(self, message: Bind) -> None:
        """Raises: DuplicateCursor (42P03), ProtocolViolation (08P01) for wrong counts, and what
        the values raise."""
        statement = self.statement(message.statement)
        values, oids = message.values, statement.parameter_oids
        codes = message.parameter_formats
        if len(codes) > 1 and len(codes) != len(values):
            raise ProtocolViolation(
                f"bind message has {len(codes)} parameter formats but {len(values)} parameters"
            )
        if len(values) != len(oids):
            raise ProtocolViolation(
                f"bind message supplies {len(values)} parameters, but prepared statement "
                f'"{message.statement}" requires {len(oids)}'
            )
        if message.portal and message.portal in self._portals:
            raise DuplicateCursor(f'cursor "{message.portal}" already exists')
        self.close_portal(message.portal)
        formats = spread_formats(codes, len(values), "parameter formats")
        parameters = tuple(
            decode_parameter(value, formats[i], oids[i], i) for i, value in enumerate(values)
        )
        results = _result_formats(message.result_formats, statement.columns)
        self._portals[message.portal] = Portal(message.portal, statement, parameters, results)

    def portal(self, name: str) -> Portal:
        """Raises: InvalidCursorName (34000)."""
        found = self._portals.get(name)
        if found is None:
            raise InvalidCursorName(f'portal "{name}" does not exist')
        return found

    def described_portal(self, name: str) -> Portal:
        """As `portal`, or a cursor that DECLARE made: psycopg describes its server-side cursors so.

        Raises: InvalidCursorName (34000).
        """
        if name in self._portals:
            return self._portals[name]
        quoted = '"' + name.replace('"', '""') + '"'
        try:
            fetch = self._session.parse(f"FETCH 1 FROM {quoted}")[0]
            prepared = self._session.prepare(fetch)
        except (InvalidCursorName, SqlSyntaxError):
            return self.portal(name)  # raises
        formats = [TEXT] * len(prepared.columns or ())
        return Portal(name, WireStatement(name, fetch.sql, 0, prepared, ()), (), formats)

    def close_portal(self, name: str) -> None:
        """Forgets a portal, if it is there."""
        portal = self._portals.pop(name, None)
        if portal is not None:
            portal.close()

    def close_portals(self, keep: Portal | None = None) -> None:
        """The transaction is over: so are its portals (but for the one that ended it)."""
        for portal in list(self._portals.values()):
            if portal is not keep:
                self.close_portal(portal.name)


def is_empty(statement: Any) -> bool:
    """Nothing but blanks and comments between two semicolons."""
    return type(statement).__name__ == "Empty"


def _parameter_oids(declared: Sequence[int], prepared: Prepared) -> tuple[int, ...]:
    """What ParameterDescription says: the client's own types where it gave them."""
    inferred = prepared.parameter_oids or [type_.oid for type_ in prepared.parameter_types]
    oids = [oid or (declared[i] if i < len(declared) else 0) for i, oid in enumerate(inferred)]
    for i, oid in enumerate(declared):
        if oid and i < len(oids):
            oids[i] = oid
    return tuple(oids)


def _result_formats(codes: Sequence[int], columns: Sequence[ResultColumn] | None) -> list[int]:
    count = len(columns) if columns is not None else 0
    if len(codes) > 1 and columns is not None and len(codes) != count:
        raise ProtocolViolation(
            f"bind message has {len(codes)} result formats but query has {count} columns"
        )
    return spread_formats(codes, count, "result formats") if columns is not None else []
