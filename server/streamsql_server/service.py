"""`streamsql serve`: opens the database, serves it, stops it on a signal."""

from __future__ import annotations

import gc
import os
import signal
import ssl
import sys
import threading
import time
from types import FrameType
from typing import NoReturn

import click
import structlog

import streamsql
from streamsql.core.errors import StreamSqlError
from streamsql.engine.api import DatabaseApi
from streamsql_server import __version__
from streamsql_server.encoding import assembly
from streamsql_server.network.tls import server_context
from streamsql_server.server import CannotListen, Server, bind

log = structlog.get_logger("streamsql.server")

STOP_CONNECTIONS_S = 1.0
PROGRESS_AFTER_S = 1.0
PROGRESS_EVERY_S = 2.0
SWITCH_INTERVAL_S = 0.001  # a waiting client is answered although a tick runs Python code
YOUNG_OBJECTS = 10_000  # new objects between two looks for garbage in cycles


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
        with _Progress("opening the database", log_it=log_json) as progress:
            database = streamsql.connect(path)
            _warm_up(progress)
            _settle_memory()
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


def _warm_up(progress: _Progress) -> None:
    """Compiles the kernels (first start only; later they come from the cache)."""
    streamsql.warm_up(progress.kernels, (assembly.__name__,))


def _settle_memory() -> None:
    """Keeps the collector of cycles off what is loaded for good: a full look at it stops every
    thread for a tenth of a second, and by default one comes every few hundred ticks."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)


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


class _Progress:
    """Says on stderr what takes longer than a second, and for how long by now."""

    def __init__(self, what: str, *, log_it: bool) -> None:
        self._what = what
        self._log_it = log_it
        self._done = threading.Event()
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._show, daemon=True)

    def kernels(self, name: str, compiled: int, known: int) -> None:
        """What is being compiled now; how many kernels are ready, of how many."""
        self._what = f"compiling kernels, {compiled} of {known} ready: {name}"

    def _show(self) -> None:
        wait_s = PROGRESS_AFTER_S
        while not self._done.wait(wait_s):
            seconds = round(time.monotonic() - self._began)
            if self._log_it:
                log.info(self._what, seconds=seconds)
            else:
                click.echo(f"{self._what} … {seconds} s", err=True)
            wait_s = PROGRESS_EVERY_S

    def __enter__(self) -> _Progress:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()
