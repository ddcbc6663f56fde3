"""`streamsql serve`: opens the database, serves it, stops it on a signal."""

from __future__ import annotations

import contextlib
import os
import signal
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

import click
import structlog

import streamsql
from streamsql.core.errors import StreamSqlError
from streamsql.engine.api import DatabaseApi
from streamsql_server import __version__
from streamsql_server.network.tls import server_context
from streamsql_server.server import CannotListen, Server, bind

log = structlog.get_logger("streamsql.server")

STOP_CONNECTIONS_S = 1.0
PROGRESS_AFTER_S = 1.0
SWITCH_INTERVAL_S = 0.001  # a waiting client is answered although a tick runs Python code


def serve(
    path: str,
    host: str,
    port: int,
    *,
    max_connections: int = 200,
    tls: tuple[str, str] | None = None,
    log_json: bool = False,
) -> int:
    """Runs until SIGINT or SIGTERM. path: a directory or `:memory:`; tls: certificate and key
    files; log_json: nothing but JSON goes to stderr. Returns the exit code."""
    stop = threading.Event()
    try:
        listener = bind(host, port)
        context = server_context(*tls) if tls else None
        with _progress("compiling kernels and opening the database", log_it=log_json):
            database = streamsql.connect(path)
            _warm_up()
    except (StreamSqlError, OSError, ssl.SSLError) as error:
        return _refused(error)
    server = Server(
        database,
        host,
        port,
        max_connections=max_connections,
        tls_context=context,
        listener=listener,
    )
    try:
        server.start()
    except CannotListen as error:
        database.close()
        return _refused(error)
    _on_signals(stop)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    shown = "memory" if path == ":memory:" else path
    print(f"streamsql {__version__} ready on {host}:{server.port} (data: {shown})", flush=True)
    while not stop.wait(3600):
        pass
    return _stop(server, database)


def _stop(server: Server, database: DatabaseApi) -> int:
    log.info("stopping")
    server.stop(STOP_CONNECTIONS_S)
    database.close()
    log.info("stopped")
    return 0


def leave(code: int) -> NoReturn:
    """Ends the process at once. Everything is closed and on disk by now; an orderly end of the
    interpreter would only free memory (half a second for compiled kernels), and a native call that
    could not be stopped in time must not see it happen."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _warm_up() -> None:
    """Compiles the kernels (first start only; later they come from the cache)."""
    warm_up = getattr(streamsql, "warm_up", None)
    if warm_up is not None:
        warm_up()


def _on_signals(stop: threading.Event) -> None:
    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():  # asked twice: do not wait for anything
            os._exit(128 + number)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)


def _refused(error: Exception) -> int:
    click.echo(f"streamsql: {error}", err=True)
    hint = getattr(error, "hint", None)
    if hint:
        click.echo(f"HINT: {hint}", err=True)
    return 1


@contextlib.contextmanager
def _progress(what: str, *, log_it: bool) -> Iterator[None]:
    """Says on stderr what takes longer than a second, and for how long by now."""
    done = threading.Event()
    began = time.monotonic()

    def show() -> None:
        wait_s = PROGRESS_AFTER_S
        while not done.wait(wait_s):
            seconds = round(time.monotonic() - began)
            if log_it:
                log.info(what, seconds=seconds)
            else:
                click.echo(f"{what} … {seconds} s", err=True)
            wait_s = 5.0

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
