"""The server's side of the protocol for one client: every event to its replies.

Runs wherever it is called from, one event at a time; it knows no sockets. Statements go to the
session, rows come back column-wise encoded, errors become one ErrorResponse each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from streamsql.core.errors import (
    FeatureNotSupported,
    ObjectNotInPrerequisiteState,
    ProtocolViolation,
    QueryCanceled,
)
from streamsql.engine.api import CopyIn, CopyOut, Result, SessionApi
from streamsql_server.conversation import keywords
from streamsql_server.conversation.activity import Activity
from streamsql_server.conversation.block import ImplicitBlock
from streamsql_server.conversation.copying import CopyInProgress, send_copy
from streamsql_server.conversation.extended import Portal, Prepareds, is_empty
from streamsql_server.conversation.output import ClientGone, Output
from streamsql_server.conversation.parameters import ParameterReporter
from streamsql_server.conversation.results import (
    RowStream,
    fields,
    same_types,
    send_notices,
    tag_of,
)
from streamsql_server.encoding.rows import TEXT
from streamsql_server.encoding.wire_type import WireContext
from streamsql_server.protocol import frontend, messages
from streamsql_server.protocol.connection import ProtocolConnection
from streamsql_server.protocol.errors import error_message, notice_message, positions_from

Outcome = Result | CopyIn | tuple[CopyOut, Result]
_EXTENDED = frozenset(b"PBDEC")
_SYNC, _FLUSH, _CLOSE = ord("S"), ord("H"), ord("C")


class Conversation:
    """One client and its session."""

    def __init__(self, session: SessionApi, protocol: ProtocolConnection, output: Output) -> None:
        self.session = session
        self.protocol = protocol
        self.output = output
        self.activity = Activity(session)
        self.reporter = ParameterReporter()
        self._block = ImplicitBlock(session)
        self._prepareds = Prepareds(session)
        self._copy: CopyInProgress | None = None
        self._copy_cancelled = False
        self._simple: deque[Any] = deque()  # statements of a simple query still to run
        self._simple_count = 0
        self.closed = False
        self._handlers: dict[type, Callable[[Any], None]] = {
            frontend.Query: self._query,
            frontend.Parse: self._parse,
            frontend.Bind: self._bind,
            frontend.Describe: self._describe,
            frontend.Execute: self._execute,
            frontend.Close: self._close_named,
            frontend.Flush: lambda event: self.output.flush(),
            frontend.Sync: self._sync,
            frontend.CopyData: self._copy_data,
            frontend.CopyDone: self._copy_done,
            frontend.CopyFail: self._copy_fail,
            frontend.FunctionCall: self._function_call,
            frontend.Terminate: self._terminate,
            frontend.Invalid: self._invalid,
        }

    def apply_settings(self, settings: list[tuple[str, str]]) -> None:
        """SETs what the startup message asked for. Raises what SET raises."""
        for name, value in settings:
            quoted = "'" + value.replace("'", "''") + "'"
            variable = name if "." in name else '"' + name.replace('"', '""').lower() + '"'
            self.session.run(self.session.parse(f"SET {variable} = {quoted}")[0])

    def greet(self, key_data: bytes) -> None:
        """Parameters, the key for cancelling, and that we are ready."""
        self.output.send(self.reporter.changes(self.session.parameters))
        self.output.send(key_data)
        self._ready()

    # --- events -----------------------------------------------------------------------------------
    def handle(self, event: frontend.Event) -> None:
        """One event from start to end. Raises: ClientGone when the client can not be reached."""
        if self._copy is not None and not isinstance(
            event, frontend.CopyData | frontend.CopyDone | frontend.CopyFail
        ):
            self._interrupted_copy(event)
            return
        handler = self._handlers[type(event)]
        try:
            handler(event)
        except ClientGone:
            raise
        except Exception as error:
            self._failed(error, extended=_is_extended(event) or self._in_extended_copy)

    @property
    def _in_extended_copy(self) -> bool:
        return self._copy is not None and self._copy.extended

    def _failed(self, error: Exception, *, extended: bool) -> None:
        """One ErrorResponse; the rest of the unit is dropped and undone."""
        if self._copy is not None:
            self._end_copy().abort()
        self._block.rollback()
        self.session.fail_transaction()
        self.output.send(error_message(error))
        self._simple.clear()
        if extended:
            self.protocol.skip_to_sync()
            self.output.flush()
        else:
            self._ready()

    def _ready(self) -> None:
        status = self.session.transaction_status
        if status == "I":
            self._prepareds.close_portals()
        self.output.send(self.reporter.changes(self.session.parameters))
        self.output.send(messages.ready_for_query(status))
        self.output.flush()

    def _context(self) -> WireContext:
        return WireContext(self.session.parameters.get("TimeZone", "UTC"))

    # --- simple queries ---------------------------------------------------------------------------
    def _query(self, event: frontend.Query) -> None:
        self._prepareds.close_statement("")
        with self.activity.running():
            parsed = self.session.parse(event.sql)
        statements = [s for s in parsed if not is_empty(s)]
        if not statements:
            self.output.send(messages.EMPTY_QUERY)
        self._simple.extend(statements)
        self._simple_count = len(statements)
        self._go_on()

    def _go_on(self) -> None:
        """Runs what is left of the simple query, until its end or a COPY FROM STDIN."""
        while self._simple:
            statement = self._simple.popleft()
            with self.activity.running():
                outcome = self._run(
                    statement, statement.sql, statement.position, alone=self._simple_count == 1
                )
                if not isinstance(outcome, Result | tuple):
                    self._start_copy(outcome, extended=False)
                    return
                if isinstance(outcome, tuple):
                    tag = send_copy(*outcome, self._context(), self.output, self.activity)
                else:
                    tag = self._send_simple(outcome)
                if not self._simple:
                    self._block.commit()
            self.output.send(messages.command_complete(tag))
        self._ready()

    def _send_simple(self, result: Result) -> str:
        send_notices(result, self.output)
        if result.columns is None:
            return result.tag
        formats = [TEXT] * len(result.columns)
        stream = RowStream(result, formats, self._context(), self.activity)
        self.output.send(messages.row_description(fields(result.columns, formats)))
        if result.streaming:
            self.output.flush()
        try:
            rows, _ = stream.send(self.output)
        finally:
            stream.close()
        stream.send_notices(self.output)
        return stream.tag(rows)

    def _run(
        self,
        statement: Any,
        sql: str,
        position: int,
        parameters: tuple[Any, ...] = (),
        *,
        alone: bool,
    ) -> Outcome:
        """Runs one statement, within the implicit transaction if it shares its fate."""
        notice = self._block.before(sql, alone=alone)
        if notice is not None:
            self.output.send(notice_message(notice))
        instead = self._own_statement(sql)
        if instead is not None:
            return instead
        with positions_from(position):
            return self.session.run(statement, parameters)

    def _own_statement(self, sql: str) -> Result | None:
        """Statements about what Parse and Bind made, of which the session knows nothing."""
        if self.session.transaction_status == "E":
            return None
        name = keywords.deallocated_name(sql)
        if name:
            if not self._prepareds.has_statement(name):
                return None
            self._prepareds.close_statement(name)
            return Result("DEALLOCATE")
        if name == "" or keywords.is_discard_all(sql):
            self._prepareds.close_statements()
        if keywords.is_close_all(sql):
            self._prepareds.close_portals()
        return None

    # --- the extended protocol --------------------------------------------------------------------
    def _parse(self, event: frontend.Parse) -> None:
        with self.activity.running():
            self._prepareds.parse(event)
        self.output.send(messages.PARSE_COMPLETE)

    def _bind(self, event: frontend.Bind) -> None:
        self._prepareds.bind(event)
        self.output.send(messages.BIND_COMPLETE)

    def _describe(self, event: frontend.Describe) -> None:
        if event.kind == "S":
            statement = self._prepareds.statement(event.name)
            self.output.send(messages.parameter_description(statement.parameter_oids))
            formats = [TEXT] * len(statement.columns or ())
        else:
            portal = self._prepareds.described_portal(event.name)
            statement, formats = portal.statement, portal.formats
        if statement.columns is None:
            self.output.send(messages.NO_DATA)
        else:
            self.output.send(messages.row_description(fields(statement.columns, formats)))

    def _execute(self, event: frontend.Execute) -> None:
        portal = self._prepareds.portal(event.portal)
        statement = portal.statement
        if statement.prepared is None:
            self.output.send(messages.EMPTY_QUERY)
            return
        with self.activity.running():
            if portal.rows is not None:
                self._send_portal(portal, portal.rows, event.max_rows)
                return
            if portal.done:
                self._run_again(portal)
                return
            portal.done = True
            outcome = self._run(
                statement.prepared,
                statement.sql,
                statement.position,
                portal.parameters,
                alone=self._alone(),
            )
            if not isinstance(outcome, Result | tuple):
                self._start_copy(outcome, extended=True)
            elif isinstance(outcome, tuple):
                tag = send_copy(*outcome, self._context(), self.output, self.activity)
                self.output.send(messages.command_complete(tag))
            else:
                self._send_result(portal, outcome, event.max_rows)

    def _run_again(self, portal: Portal) -> None:
        """A portal that ran: a query has no more rows, anything else can not run twice."""
        prepared = portal.statement.prepared
        assert prepared is not None
        if prepared.columns is None:
            raise ObjectNotInPrerequisiteState(f'portal "{portal.name}" cannot be run')
        self.output.send(messages.command_complete(tag_of(prepared.tag, 0)))

    def _alone(self) -> bool:
        """Does Sync follow this Execute, so that the statement is a transaction of its own?"""
        for type_ in self.protocol.peek_types():
            if type_ not in (_FLUSH, _CLOSE):
                return type_ == _SYNC
        return False

    def _send_result(self, portal: Portal, result: Result, max_rows: int) -> None:
        send_notices(result, self.output)
        if result.columns is None:
            self.output.send(messages.command_complete(result.tag))
            if self.session.transaction_status == "I" and not self._block.is_open:
                self._prepareds.close_portals(keep=portal)
            return
        if not same_types(portal.statement.columns, result.columns):
            raise FeatureNotSupported("cached plan must not change result type")
        formats = portal.formats
        portal.rows = RowStream(result, formats, self._context(), self.activity)
        self._send_portal(portal, portal.rows, max_rows)

    def _send_portal(self, portal: Portal, stream: RowStream, max_rows: int) -> None:
        try:
            rows, at_end = stream.send(self.output, max_rows)
        except BaseException:
            portal.close()
            raise
        stream.send_notices(self.output)
        if at_end:
            portal.close()
            self.output.send(messages.command_complete(stream.tag(rows)))
        else:
            self.output.send(messages.PORTAL_SUSPENDED)

    def _close_named(self, event: frontend.Close) -> None:
        if event.kind == "S":
            self._prepareds.close_statement(event.name)
        else:
            self._prepareds.close_portal(event.name)
        self.output.send(messages.CLOSE_COMPLETE)

    def _sync(self, event: frontend.Sync) -> None:
        with self.activity.running():
            self._block.commit()
        self._ready()

    # --- COPY FROM STDIN --------------------------------------------------------------------------
    def _start_copy(self, copy: CopyIn, *, extended: bool) -> None:
        self._copy = CopyInProgress(copy, extended=extended)
        self._copy_cancelled = False
        self.protocol.start_copy()
        self._copy.announce(self.output)

    def _end_copy(self) -> CopyInProgress:
        copy = self._copy
        assert copy is not None
        self._copy = None
        self.protocol.end_copy()
        return copy

    def _copy_data(self, event: frontend.CopyData) -> None:
        if self._copy is not None:
            with self.activity.running():
                self._copy.write(event.data)

    def _copy_done(self, event: frontend.CopyDone) -> None:
        if self._copy is None:
            return
        with self.activity.running():
            result = self._copy.finish()
            copy = self._end_copy()
            send_notices(result, self.output)
            if not copy.extended and not self._simple:
                self._block.commit()
        self.output.send(messages.command_complete(result.tag))
        if not copy.extended:
            self._go_on()

    def _copy_fail(self, event: frontend.CopyFail) -> None:
        self._end_copy_with(lambda copy: copy.give_up(event.message))

    def _interrupted_copy(self, event: frontend.Event) -> None:
        """Something else than COPY data came in the middle of it."""
        type_ = ord(_type_byte(event))
        text = f"unexpected message type 0x{type_:02X} during COPY from stdin"
        self._end_copy_with(lambda copy: _aborted(copy, ProtocolViolation(text)))
        if isinstance(event, frontend.Terminate):
            self._terminate(event)

    def _end_copy_with(self, end: Callable[[CopyInProgress], Exception]) -> None:
        if self._copy is not None:
            copy = self._end_copy()
            self._failed(end(copy), extended=copy.extended)

    # --- the rest ---------------------------------------------------------------------------------
    def _function_call(self, event: frontend.FunctionCall) -> None:
        raise FeatureNotSupported(
            "function calls by the fast path are not supported",
            hint="Call the function in a SELECT.",
        )

    def _invalid(self, event: frontend.Invalid) -> None:
        raise event.error

    def _terminate(self, event: frontend.Terminate) -> None:
        self.closed = True

    def cancel(self) -> bool:
        """A CancelRequest, from any thread. True: `after_cancel` must be called by the worker."""
        if self.activity.cancel() or self._copy is None:
            return False
        self._copy_cancelled = True
        return True

    def after_cancel(self) -> None:
        """Ends a COPY FROM STDIN that waited for data when it was cancelled."""
        if self._copy_cancelled and self._copy is not None:
            error = QueryCanceled("canceling statement due to user request")
            self._end_copy_with(lambda copy: _aborted(copy, error))
        self._copy_cancelled = False

    def close(self) -> None:
        """The client is gone: what it left undone is undone."""
        if self._copy is not None:
            self._end_copy().abort()
        self._prepareds.close_portals()
        self._block.rollback()
        self.session.close()


def _aborted(copy: CopyInProgress, error: Exception) -> Exception:
    copy.abort()
    return error


_TYPE_BYTES: dict[type, bytes] = {
    frontend.Query: b"Q",
    frontend.Parse: b"P",
    frontend.Bind: b"B",
    frontend.Describe: b"D",
    frontend.Execute: b"E",
    frontend.Close: b"C",
    frontend.FunctionCall: b"F",
    frontend.Terminate: b"X",
}


def _type_byte(event: frontend.Event) -> bytes:
    return event.type if isinstance(event, frontend.Invalid) else _TYPE_BYTES[type(event)]


def _is_extended(event: frontend.Event) -> bool:
    """Does an error in this event skip to Sync, rather than end a simple query?"""
    if isinstance(event, frontend.CopyData | frontend.CopyDone | frontend.CopyFail):
        return False  # the COPY itself knows how it was started
    if isinstance(event, frontend.Flush | frontend.Sync):
        return False
    return _type_byte(event)[0] in _EXTENDED
