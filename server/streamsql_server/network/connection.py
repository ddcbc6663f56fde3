"""One client connection: the event loop's side (bytes) and the worker's side (statements).

The event loop reads, frames and writes; it never waits for a statement. Events are worked off one
after the other by one worker at a time, so a session is never used by two threads at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from typing import TYPE_CHECKING

import structlog

from streamsql.core.errors import AdminShutdown, StreamSqlError
from streamsql_server.conversation.conversation import Conversation
from streamsql_server.conversation.output import ClientGone
from streamsql_server.network.output import HIGH_BYTES, LOW_BYTES, SocketOutput
from streamsql_server.network.tls import TlsLayer
from streamsql_server.protocol import messages, startup
from streamsql_server.protocol.connection import ProtocolConnection
from streamsql_server.protocol.errors import error_message

if TYPE_CHECKING:
    from streamsql_server.server import Server

log = structlog.get_logger("streamsql.server")

STARTUP_TIMEOUT_S = 60.0
READ_HIGH_BYTES, READ_LOW_BYTES = 8 << 20, 1 << 20  # of messages that wait for the worker


class ClientConnection(asyncio.Protocol):
    """A connection from accept to close."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._startup: startup.Startup | None = startup.Startup(
            tls_available=server.tls_context is not None
        )
        self._startup_buffer = bytearray()
        self._tls: TlsLayer | None = None
        self._protocol = ProtocolConnection()
        self._output = SocketOutput(self._hand_over)
        self._conversation: Conversation | None = None
        self._options: startup.StartupOptions | None = None
        self._state = threading.Lock()  # guards the four below
        self._working = False
        self._gone = False  # the connection is lost or being closed
        self._input_ended = False
        self._poked = False
        self._reading_paused = False
        self._fatal: StreamSqlError | None = None
        self.pid, self.secret = server.new_key()

    # --- event loop: the transport's calls --------------------------------------------------------
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(HIGH_BYTES, LOW_BYTES)
        _keep_alive(transport.get_extra_info("socket"))
        self._server.register(self)
        self._timeout = self._loop.call_later(STARTUP_TIMEOUT_S, self._startup_timed_out)

    def data_received(self, data: bytes) -> None:
        if self._tls is not None:
            plain = self._tls_receive(data)
            if plain is None:
                return
            data = plain
        if self._startup is not None:
            self._startup_buffer += data
            self._startup_steps()
        elif data:
            self._protocol.receive(data)
            conversation = self._conversation
            if (
                conversation is not None
                and conversation.activity.streaming
                and self._protocol.terminate_waits
            ):
                conversation.activity.cancel()
            self._schedule()
            if not self._reading_paused and self._protocol.pending_bytes > READ_HIGH_BYTES:
                self._reading_paused = True
                self._transport.pause_reading()

    def eof_received(self) -> bool:
        """What was sent completely is still answered; what has no end of its own is stopped."""
        with self._state:
            self._input_ended = True
        conversation = self._conversation
        if conversation is not None and conversation.activity.streaming:
            conversation.activity.cancel()
        if self._tls is not None or self._startup is not None:
            return False
        self._schedule()
        return True

    def pause_writing(self) -> None:
        self._output.paused(True)

    def resume_writing(self) -> None:
        self._output.paused(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timeout.cancel()
        with self._state:
            self._gone = True
        self._output.lost()
        if self._conversation is not None:
            self._conversation.activity.cancel()
        self._server.unregister(self)
        self._schedule()

    # --- event loop: before the session -----------------------------------------------------------
    def _startup_steps(self) -> None:
        while self._startup is not None:
            step = self._startup.next_step(self._startup_buffer)
            match step:
                case None:
                    return
                case startup.Reply(data):
                    self._write(data)
                case startup.StartTls(reply):
                    self._write(reply)
                    assert self._server.tls_context is not None
                    self._tls = TlsLayer(self._server.tls_context)
                    first, self._startup_buffer = bytes(self._startup_buffer), bytearray()
                    self.data_received(first)
                    return
                case startup.Cancel(pid, secret):
                    self._server.cancel(pid, secret)
                    self._transport.close()
                    return
                case startup.Reject(error):
                    self._refuse(error)
                    return
                case startup.Start(parameters, reply):
                    self._start(parameters, reply)

    def _start(self, parameters: dict[str, str], reply: bytes) -> None:
        self._timeout.cancel()
        self._startup = None
        self._write(reply)
        try:
            self._options = startup.startup_options(parameters)
            self._server.check_limit()
        except StreamSqlError as error:
            self._refuse(error)
            return
        self._protocol.receive(bytes(self._startup_buffer))
        self._schedule(poke=True)

    def _startup_timed_out(self) -> None:
        if self._startup is not None:
            self._transport.abort()

    def _refuse(self, error: StreamSqlError | None) -> None:
        if error is not None:
            self._write(error_message(error, "FATAL"))
        self._transport.close()

    def _tls_receive(self, data: bytes) -> bytes | None:
        assert self._tls is not None
        try:
            plain = self._tls.receive(data)
        except ssl.SSLError as error:
            log.info("TLS handshake failed", reason=error.reason)
            self._transport.write(self._tls.pending())
            self._transport.close()
            return None
        self._transport.write(self._tls.pending())
        if self._tls.ended:
            self._transport.close()
        return plain

    # --- event loop: writing ----------------------------------------------------------------------
    def _write(self, data: bytes | memoryview) -> None:
        if not self._transport.is_closing():
            self._transport.write(self._tls.send(data) if self._tls is not None else data)

    def _write_handed_over(self, buffers: list[bytes | memoryview]) -> None:
        size = sum(map(len, buffers))
        if len(buffers) > 1 and size < READ_LOW_BYTES:
            buffers = [b"".join(buffers)]
        for data in buffers:
            self._write(data)
        self._output.accepted(size)

    def _resume_reading(self) -> None:
        if self._reading_paused and not self._transport.is_closing():
            self._reading_paused = False
            self._transport.resume_reading()

    def _close_transport(self) -> None:
        self._transport.close()

    def shut_down(self) -> None:
        """The server stops: tell the client and close. Event loop only."""
        error = AdminShutdown("terminating connection due to administrator command")
        if self._startup is None and not self._transport.is_closing():
            self._write(error_message(error, "FATAL"))
        self._transport.close()
        self._loop.call_later(0.5, self._transport.abort)

    # --- any thread -------------------------------------------------------------------------------
    def _hand_over(self, buffers: list[bytes | memoryview]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            self._loop.call_soon_threadsafe(self._write_handed_over, buffers)

    def _call_loop(self, callback: object) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback)  # type: ignore[arg-type]

    def cancel(self) -> None:
        """A CancelRequest for this connection."""
        conversation = self._conversation
        if conversation is not None and conversation.cancel():
            self._schedule(poke=True)

    def _schedule(self, *, poke: bool = False) -> None:
        """Sees to it that a worker looks at what there is to do."""
        with self._state:
            self._poked = self._poked or poke
            if self._working or not self._has_work():
                return
            self._working = True
        self._server.workers.submit(self._work)

    def _has_work(self) -> bool:
        if self._startup is not None or self._options is None:
            return False
        if self._gone or self._input_ended:
            return self._conversation is not None or self._poked
        return self._poked or self._protocol.has_work

    # --- worker -----------------------------------------------------------------------------------
    def _work(self) -> None:
        """Works off all events there are, then gives the thread back."""
        while True:
            try:
                open_still = self._work_once()
            except ClientGone:
                open_still = False
            except Exception as error:
                log.exception("a connection failed")
                self._output.send(error_message(error, "FATAL"))
                open_still = False
            if not open_still:
                self._finish()
                return
            with self._state:
                if not self._has_work():
                    self._working = False
                    return

    def _work_once(self) -> bool:
        """Events until none is left; False when the connection is over."""
        with self._state:
            self._poked = False
        if self._conversation is None and not self._open():
            return False
        conversation = self._conversation
        assert conversation is not None
        conversation.after_cancel()
        while True:
            if self._gone:
                return False
            self._output.wait_room()
            try:
                event = self._protocol.next_event()
            except StreamSqlError as error:
                self._output.send(error_message(error, "FATAL"))
                return False
            if event is None:
                return not self._input_ended
            conversation.handle(event)
            if conversation.closed:
                return False
            if self._reading_paused and self._protocol.pending_bytes < READ_LOW_BYTES:
                self._call_loop(self._resume_reading)

    def _open(self) -> bool:
        """Makes the session and greets the client."""
        if self._gone:
            return False
        options = self._options
        assert options is not None
        output = self._output
        try:
            session = self._server.database.session(user=options.user, backend_pid=self.pid)
            conversation = Conversation(session, self._protocol, output)
            conversation.apply_settings(options.settings)
        except StreamSqlError as error:
            output.send(error_message(error, "FATAL"))
            return False
        output.check = conversation.activity.check
        self._conversation = conversation
        output.send(messages.AUTHENTICATION_OK)
        conversation.greet(messages.backend_key_data(self.pid, self.secret))
        return True

    def _finish(self) -> None:
        """The connection is over: undo, close, forget. `_working` stays set: nothing follows."""
        conversation = self._conversation
        self._conversation = None
        self._output.flush()
        self._call_loop(self._close_transport)
        if conversation is not None:
            try:
                conversation.close()
            except Exception:
                log.exception("a session could not be closed")


def _keep_alive(sock: socket.socket | None) -> None:
    """Finds out within two minutes that a silent peer is gone."""
    if sock is None:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 6)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
