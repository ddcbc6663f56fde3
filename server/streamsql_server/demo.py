"""`streamsql demo`: a server, the flights example, a year of departures, a live view to watch."""

from __future__ import annotations

import os
import shutil
import signal
import site
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from streamsql_server import demo_leftovers
from streamsql_server.demo_screen import Screen, busy

EXAMPLES_VARIABLE = "STREAMSQL_EXAMPLES"
"""Names the folder `sql-examples` where it is not in the checkout or the working directory."""

INSTALLED = "share/streamsql/sql-examples"
"""Where a wheel puts that folder, below the environment."""

REDRAW_SECONDS = 0.25
LINE_SECONDS = 1.0
TABLES = ("departures", "weather", "airlines")
FLIGHTS_PATH = "'sql-examples/data/flights.parquet'"

TOP = """
SELECT airline, flights, cancelled, round(100.0 * late / flights, 1) AS late_percent, mean_delay
FROM airline_punctuality WHERE flights >= 20 ORDER BY late_percent DESC, airline LIMIT 10"""
PROGRESS = (
    "SELECT max(latest) AS latest, coalesce(sum(flights), 0) AS flights FROM airline_punctuality"
)
HEADINGS = ("airline", "flights", "cancelled", "% late > 15 min", "mean delay, min")


def run_demo(
    speed: float,
    host: str = "127.0.0.1",
    port: int = 4566,
    data_dir: str | Path | None = None,
    *,
    seconds: float | None = None,
    out: TextIO | None = None,
) -> int:
    """Run until Ctrl-C, SIGTERM or, if given, for `seconds`; returns the exit code.

    speed: seconds of 2013 per second. data_dir: of the server; None = a temporary one, ":memory:" =
    none. What an earlier demo left there is made anew, with what users have made above it; tables
    of other people are not touched.
    """
    out = out or sys.stdout
    folder = find_examples()
    if folder is None:
        print(
            "streamsql demo: the folder sql-examples was not found\n"
            f"HINT: Run it inside a checkout of streamsql, or set {EXAMPLES_VARIABLE}.",
            file=sys.stderr,
        )
        return 1
    if not speed > 0:
        print("streamsql demo: the speed must be above 0", file=sys.stderr)
        return 1
    stop = threading.Event()
    restore = _stop_on_signals(stop)
    temporary: str | None = None
    if data_dir is None:
        import tempfile

        temporary = tempfile.mkdtemp(prefix="streamsql-demo-")
        data_dir = temporary
    try:
        return _Demo(folder, speed, host, port, str(data_dir), out, stop).run(seconds)
    finally:
        restore()
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def find_examples() -> Path | None:
    """The folder `sql-examples`: of the environment, the working directory, the checkout or the
    installation."""
    candidates = [
        os.environ.get(EXAMPLES_VARIABLE),
        "sql-examples",
        Path(__file__).resolve().parents[2] / "sql-examples",
        Path(sysconfig.get_path("data")) / INSTALLED,  # of a wheel
        Path(site.getuserbase()) / INSTALLED,  # pip install --user
    ]
    for candidate in candidates:
        if candidate and (Path(candidate) / "flights" / "setup.sql").is_file():
            return Path(candidate).resolve()
    return None


def replay_script(folder: Path, speed: float) -> str:
    """The example's setup with absolute paths, and the departures replayed by event time."""
    script = (folder / "flights" / "setup.sql").read_text("utf-8")
    options = (
        f"{FLIGHTS_PATH}, replay = 'event_time', replay_column = 'time_hour', speed = '{speed}'"
    )
    assert FLIGHTS_PATH in script, "the example no longer reads flights.parquet"
    data = str(folder / "data").replace("'", "''")
    return script.replace(FLIGHTS_PATH, options).replace("'sql-examples/data", f"'{data}")


class _Demo:
    """One run: open, create, watch, close."""

    def __init__(
        self,
        folder: Path,
        speed: float,
        host: str,
        port: int,
        data_dir: str,
        out: TextIO,
        stop: threading.Event,
    ) -> None:
        self._folder = folder
        self._speed = speed
        self._host = host
        self._port = port
        self._data_dir = data_dir
        self._out = out
        self._stop = stop

    def run(self, seconds: float | None) -> int:
        from streamsql.core.errors import StreamSqlError

        try:
            return self._run(seconds)
        except StreamSqlError as error:
            print(f"streamsql demo: {error}", file=sys.stderr)
            if error.hint:
                print(f"HINT: {error.hint}", file=sys.stderr)
            return 1

    def _run(self, seconds: float | None) -> int:
        with busy("loading the engine (the first time it compiles kernels)", self._out):
            import streamsql
            from streamsql_server.encoding import assembly
            from streamsql_server.server import Server, bind

            listener = bind(
                self._host, self._port
            )  # one that is taken is told before the long wait
            database = streamsql.connect(self._data_dir)
            streamsql.warm_up(rooms=(assembly.__name__,))
        try:
            server = Server(database, self._host, self._port, listener=listener)
            server.start()
            try:
                session = database.session()
                self._create(session)
                self._announce(server.port)
                self._watch(session, seconds)
                session.close()
            finally:
                with busy("stopping", self._out):
                    server.stop()
        finally:
            with busy("writing the last checkpoint", self._out):
                database.close()
        self._say("stopped")
        return 0

    def _create(self, session: Any) -> None:
        """Tables and views. Raises: DuplicateTable (42P07): a table of that name is not ours."""
        from streamsql.core.errors import DuplicateTable

        existing = _existing_tables(session)
        for table in TABLES:
            if table in existing and "sql-examples" not in existing[table]:
                raise DuplicateTable(
                    f'the database in "{self._data_dir}" has a table "{table}" of its own',
                    hint="Choose another folder with --data-dir.",
                )
        above = demo_leftovers.definitions(session) if existing else []
        for table in TABLES:
            if table in existing:
                session.execute(f"DROP TABLE {table} CASCADE")
        with busy("creating the flights example", self._out):
            for statement in session.parse(replay_script(self._folder, self._speed)):
                if self._stop.is_set():
                    return
                session.run(statement)
        for line in demo_leftovers.make_anew(session, above):
            self._say(line)

    def _announce(self, port: int) -> None:
        days = self._speed / 86_400 * 60
        shown = f"{days:,.0f}" if days >= 10 else f"{days:.2g}"
        self._say(
            f"A year of departures from New York, {self._speed:,.0f} times as fast as it was"
            f" ({shown} days a minute).\n"
            "Look from another terminal:\n\n"
            f"    psql -h {self._host} -p {port} -d streamsql"
            ' -c "SELECT * FROM delays_by_weather"\n\n'
            "Ctrl-C stops everything.\n"
        )

    def _watch(self, session: Any, seconds: float | None) -> None:
        """Redraw the top of the view until told to stop."""
        screen = Screen(self._out)
        began = time.monotonic()
        pause = REDRAW_SECONDS if screen.redraws else LINE_SECONDS
        while True:
            latest, flights = session.execute(PROGRESS).fetchall()[0]
            rows = session.execute(TOP).fetchall()
            title = f"{latest:%Y-%m-%d %H:%M} UTC" if latest is not None else "no flight yet"
            title += f" · {int(flights):,} flights"
            screen.show(title, HEADINGS, [tuple(map(_text, row)) for row in rows])
            left = pause if seconds is None else min(pause, began + seconds - time.monotonic())
            if left <= 0 or self._stop.wait(left):
                break
        screen.end()

    def _say(self, text: str) -> None:
        print(text, file=self._out, flush=True)


def _existing_tables(session: Any) -> dict[str, str]:
    """Name -> CREATE statement of the tables that the demo would make."""
    names = {str(row[0]) for row in session.execute("SHOW TABLES").fetchall()}
    found = {}
    for name in TABLES:
        if name in names:
            row = session.execute(f"SHOW CREATE TABLE {name}").fetchall()[0]
            found[name] = str(row[-1])
    return found


def _text(value: object) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _stop_on_signals(stop: threading.Event) -> Callable[[], None]:
    """SIGINT and SIGTERM set `stop` (a second one ends at once); returns the way back."""
    if threading.current_thread() is not threading.main_thread():
        return lambda: None

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    before = [(number, signal.signal(number, handle)) for number in (signal.SIGINT, signal.SIGTERM)]

    def restore() -> None:
        for number, handler in before:
            signal.signal(number, handler)

    return restore


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m streamsql_server.demo [--speed N] [--port N] [--data-dir D] [--seconds N]`."""
    import argparse

    parser = argparse.ArgumentParser(prog="streamsql demo", description=__doc__)
    parser.add_argument("--speed", type=float, default=20_000.0)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=4566)
    parser.add_argument("--data-dir", default=None)
    parser.add_argument("--seconds", type=float, default=None)
    given = parser.parse_args(arguments)
    return run_demo(given.speed, given.host, given.port, given.data_dir, seconds=given.seconds)


if __name__ == "__main__":
    sys.exit(main())
