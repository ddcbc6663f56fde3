"""The server: a listening socket on an event loop of its own, workers for statements.

with Server(streamsql.connect(":memory:"), port=0) as server:
    psycopg.connect(host="127.0.0.1", port=server.port, user="me", dbname="streamsql")
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import secrets
import socket
import ssl
import threading
import time
from types import TracebackType

import structlog

from streamsql.core.errors import OperationalError
from streamsql.engine.api import DatabaseApi
from streamsql_server.network.connection import ClientConnection
from streamsql_server.network.workers import WorkerPool

log = structlog.get_logger("streamsql.server")

STOP_S = 2.0
BACKLOG = 128


class TooManyConnections(OperationalError, sqlstate="53300"):
    """As PostgreSQL refuses one more client."""


class CannotListen(OperationalError, sqlstate="58000"):
    """The address can not be listened on: in use, not ours, or not safe without a password."""


class Server:
    """Serves one database.

    host, port: where to listen; port 0 takes a free one (see `port` after `start`). Only loopback
    addresses are possible, as clients are let in without a password. tls_context: answers an
    SSLRequest with yes. listener: what `bind` gave for host and port, if it was called before.
    """

    def __init__(
        self,
        database: DatabaseApi,
        host: str = "127.0.0.1",
        port: int = 4566,
        *,
        max_connections: int = 200,
        tls_context: ssl.SSLContext | None = None,
        listener: socket.socket | None = None,
    ) -> None:
        self.database = database
        self.host = host
        self.port = port
        self.tls_context = tls_context
        self.workers = WorkerPool("streamsql-session")
        self._max_connections = max_connections
        self._listener = listener
        self._connections: dict[int, ClientConnection] = {}
        self._lock = threading.Lock()
        self._next_pid = os.getpid() % 100_000 * 10_000 + 1
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    # --- life -------------------------------------------------------------------------------------
    def start(self) -> Server:
        """Listens and returns. Raises: CannotListen (58000)."""
        listener = self._listener or bind(self.host, self.port)
        self._listener = None
        try:
            listener.listen(BACKLOG)
        except OSError as error:
            listener.close()
            raise _cannot_listen(self.host, self.port, error) from None
        self.port = listener.getsockname()[1]
        ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._serve, args=(listener, ready), name="streamsql-network", daemon=True
        )
        self._thread.start()
        ready.wait()
        return self

    def _serve(self, listener: socket.socket, ready: threading.Event) -> None:
        assert self._loop is not None
        loop = self._loop
        asyncio.set_event_loop(loop)
        server = loop.run_until_complete(
            loop.create_server(lambda: ClientConnection(self), sock=listener, backlog=BACKLOG)
        )
        ready.set()
        try:
            loop.run_forever()
        finally:
            server.close()
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    def stop(self, timeout_s: float = STOP_S) -> bool:
        """Ends all connections (57P01) and stops; False when a statement would not end in time.

        The database stays open: who opened it closes it.
        """
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return True
        deadline = time.monotonic() + timeout_s
        for connection in self._all():
            connection.cancel()
        loop.call_soon_threadsafe(self._shut_down_connections)
        while self._all() and time.monotonic() < deadline:
            time.sleep(0.005)
        quiet = self.workers.wait_quiet(max(0.0, deadline - time.monotonic()))
        loop.call_soon_threadsafe(loop.stop)
        thread.join(max(0.1, deadline - time.monotonic()))
        self._loop = self._thread = None
        if not quiet:
            log.warning("some statements did not stop in time")
        return quiet

    def _shut_down_connections(self) -> None:
        for connection in self._all():
            connection.shut_down()

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # --- connections ------------------------------------------------------------------------------
    def new_key(self) -> tuple[int, int]:
        """Process id and secret of a new connection, which a CancelRequest must show."""
        with self._lock:
            self._next_pid += 1
            return self._next_pid, secrets.randbits(32)

    def register(self, connection: ClientConnection) -> None:
        """A connection was accepted."""
        with self._lock:
            self._connections[connection.pid] = connection

    def unregister(self, connection: ClientConnection) -> None:
        """A connection is closed."""
        with self._lock:
            self._connections.pop(connection.pid, None)

    def _all(self) -> list[ClientConnection]:
        with self._lock:
            return list(self._connections.values())

    def check_limit(self) -> None:
        """Raises: TooManyConnections (53300)."""
        with self._lock:
            if len(self._connections) > self._max_connections:
                raise TooManyConnections("sorry, too many clients already")

    def cancel(self, pid: int, secret: int) -> None:
        """A CancelRequest; a wrong secret is ignored."""
        with self._lock:
            connection = self._connections.get(pid)
        if connection is not None and secrets.compare_digest(
            connection.secret.to_bytes(4, "big"), secret.to_bytes(4, "big")
        ):
            connection.cancel()


def bind(host: str, port: int) -> socket.socket:
    """Takes the address without listening yet. Raises: CannotListen (58000) when it is in use, is
    not ours, or can be reached from outside."""
    check_loopback(host)
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise _cannot_listen(host, port, error) from None
    return listener


def _cannot_listen(host: str, port: int, error: OSError) -> CannotListen:
    return CannotListen(
        f"could not listen on {host}:{port}: {error.strerror or error}",
        hint="Is another server running there? Choose another port with --port.",
    )


def check_loopback(host: str) -> None:
    """Raises: CannotListen (58000) for an address that others can reach."""
    try:
        addresses = {info[4][0] for info in socket.getaddrinfo(host, None)}
    except OSError as error:
        raise CannotListen(f'could not resolve host "{host}": {error.strerror or error}') from None
    if not all(ipaddress.ip_address(str(a).split("%")[0]).is_loopback for a in addresses):
        raise CannotListen(
            f"refusing to listen on {host}: others could reach it, and no authentication is "
            "configured",
            hint="Listen on 127.0.0.1 and reach it from elsewhere through an SSH tunnel.",
        )
