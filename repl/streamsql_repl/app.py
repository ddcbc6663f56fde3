"""The program: arguments, which backend, a person or a script."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TextIO

from streamsql_repl.answer import Backend, ConnectionLost
from streamsql_repl.screen import Screen
from streamsql_repl.settings import DEFAULT_ROW_LIMIT, Settings
from streamsql_repl.shell import Quit, Shell

DEFAULT_DATA_DIR = "./streamsql-data"
EXIT_OK, EXIT_NO_CONNECTION, EXIT_SCRIPT_FAILED = 0, 2, 3


def arguments_of(arguments: Sequence[str]) -> tuple[str | None, str | None]:
    """(dsn, data directory) of command-line arguments: [DSN] | --data-dir D | --memory.

    Raises: ValueError for anything else.
    """
    rest = list(arguments)
    dsn = data_dir = None
    while rest:
        word = rest.pop(0)
        if word == "--memory":
            data_dir = ":memory:"
        elif word == "--data-dir" and rest:
            data_dir = rest.pop(0)
        elif word.startswith("--data-dir="):
            data_dir = word.partition("=")[2]
        elif word.startswith("-") or dsn is not None:
            raise ValueError(f"unknown argument {word}")
        else:
            dsn = word
    if dsn is not None and data_dir is not None:
        raise ValueError("give a DSN or a data directory, not both")
    return dsn, data_dir


def connect(dsn: str | None, data_dir: str | None) -> Backend:
    """A server if a DSN is given, else the database in a directory (or ":memory:").

    With neither: the server on this machine if one answers, else `./streamsql-data`.
    Raises: ConnectionLost.
    """
    from streamsql_repl.backends import connected, embedded

    if dsn is not None:
        return connected.ConnectedBackend(dsn)
    if data_dir is None and _listens(connected.DEFAULT_HOST, connected.DEFAULT_PORT):
        return connected.ConnectedBackend("")
    return embedded.EmbeddedBackend(data_dir or DEFAULT_DATA_DIR)


def _listens(host: str, port: int) -> bool:
    import socket

    try:
        with socket.create_connection((host, port), timeout=0.3):
            return True
    except OSError:
        return False


def main(
    dsn: str | Sequence[str] | None = None,
    data_dir: str | None = None,
    *,
    stdin: TextIO | None = None,
) -> int:
    """Run the REPL; the exit code.

    dsn: a server (`host:port`, a URL or a libpq string), or a list of command-line arguments.
    data_dir: a database in this process. A script comes from stdin if that is no terminal: then the
    first error ends it with exit code 3. Exit code 2: no connection.
    """
    if dsn is not None and not isinstance(dsn, str):
        try:
            dsn, data_dir = arguments_of(dsn)
        except ValueError as error:
            print(f"streamsql repl: {error}", file=sys.stderr)
            return EXIT_NO_CONNECTION
    source = stdin or sys.stdin
    interactive = stdin is None and source.isatty()
    try:
        backend = connect(dsn, data_dir)
    except ConnectionLost as error:
        print(f"streamsql repl: connection failed: {error}", file=sys.stderr)
        return EXIT_NO_CONNECTION
    try:
        if interactive:
            return _converse(backend)
        return _script(backend, source)
    except ConnectionLost as error:
        print(f"streamsql repl: the connection is lost: {error}", file=sys.stderr)
        return EXIT_NO_CONNECTION
    finally:
        backend.close()


def _script(backend: Backend, source: TextIO) -> int:
    """Statements and commands from a file or pipe."""
    shell = Shell(backend, settings=Settings(expanded="off", stop_on_error=True))
    try:
        went_well = shell.run_lines(source)
    except Quit:
        went_well = True
    except KeyboardInterrupt:
        return 130
    finally:
        shell.screen.redirect(None)
        shell.screen.flush()
    return EXIT_OK if went_well else EXIT_SCRIPT_FAILED


def _converse(backend: Backend) -> int:
    """A person at a terminal."""
    from streamsql_repl.terminal import Terminal

    screen = Screen(colour=sys.stdout.isatty(), fit=True)
    settings = Settings(row_limit=DEFAULT_ROW_LIMIT)
    shell = Shell(backend, screen, interactive=True, settings=settings)
    print(
        f"{backend.describe()}\nType SQL; \\? lists the commands, \\h the statements, \\q leaves."
    )
    try:
        Terminal(shell).run()
    finally:
        screen.redirect(None)
    return EXIT_OK
