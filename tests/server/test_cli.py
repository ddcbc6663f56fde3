"""The command line, as a user calls it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import streamsql_server

STREAMSQL = [sys.executable, "-m", "streamsql"]


def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*STREAMSQL, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )  # type: ignore[call-overload,no-any-return]


@contextmanager
def serving(*arguments: str, cwd: Path) -> Iterator[tuple[subprocess.Popen[str], int, str]]:
    """A server process, its port, and its ready line."""
    process = subprocess.Popen(
        [*STREAMSQL, "serve", "--port", "0", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"ready on 127\.0\.0\.1:(\d+)", line)
        assert found, line + (process.stderr.read() if process.stderr else "")
        yield process, int(found[1]), line.rstrip("\n")
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def connect(port: int) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(
        host="127.0.0.1", port=port, user="me", dbname="streamsql", autocommit=True
    )


def test_version_is_fast_and_the_packages_own() -> None:
    best = 10.0
    for _ in range(5):
        began = time.monotonic()
        done = run("--version")
        best = min(best, time.monotonic() - began)
    assert done.stdout == f"streamsql {streamsql_server.__version__}\n"
    assert best < 0.4
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert f'version = "{streamsql_server.__version__}"' in project


def test_help_names_every_command() -> None:
    out = run("--help").stdout
    for command in ("serve", "repl", "run", "demo", "bench"):
        assert re.search(rf"^  {command} ", out, re.MULTILINE)


def test_version_and_help_import_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from streamsql_server.cli import main\n"
        "try:\n    main(['--help'], prog_name='streamsql')\n"
        "except SystemExit:\n    pass\n"
        "heavy = {'numpy', 'numba', 'duckdb', 'pyarrow', 'sqlglot', 'structlog'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["serve", "--memory", "--data-dir", "x"], "not both"),
        (["serve", "--memory", "--host", "0.0.0.0"], "no authentication is configured"),
        (["serve", "--memory", "--tls-cert", "pyproject.toml"], "belong together"),
        (["repl", "postgresql://localhost", "--memory"], "give a DSN"),
    ],
)
def test_wrong_options_are_explained(arguments: list[str], message: str) -> None:
    done = run(*arguments)
    assert done.returncode != 0
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_port_in_use_is_a_clear_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run("serve", "--memory", "--port", str(port))
    assert done.returncode == 1
    assert f"could not listen on 127.0.0.1:{port}" in done.stderr
    assert "Traceback" not in done.stderr


def stopped_by(process: subprocess.Popen[str], number: signal.Signals) -> float:
    """Seconds from a signal to the end of the process, which must be a clean one."""
    began = time.monotonic()
    os.kill(process.pid, number)
    assert process.wait(10) == 0
    return time.monotonic() - began


def test_serve_stops_within_two_seconds_of_ctrl_c(tmp_path: Path) -> None:
    with serving("--memory", cwd=tmp_path) as (process, port, line):
        assert (
            line
            == f"streamsql {streamsql_server.__version__} ready on 127.0.0.1:{port} (data: memory)"
        )
        with connect(port) as client:
            assert client.execute("SELECT 1").fetchone() == (1,)
            assert stopped_by(process, signal.SIGINT) < 2.0
            with pytest.raises(psycopg.OperationalError):
                client.execute("SELECT 1")
        assert process.stdout is not None
        assert process.stdout.read() == ""  # the ready line is all there is


def test_serve_keeps_its_data_directory(tmp_path: Path) -> None:
    with serving(cwd=tmp_path) as (process, port, line):
        assert line.endswith("(data: ./streamsql-data)")
        with connect(port) as client:
            client.execute("CREATE TABLE t (a INT)")
            client.execute("INSERT INTO t VALUES (1)")
        assert stopped_by(process, signal.SIGTERM) < 2.0
    with serving("--log-json", cwd=tmp_path) as (process, port, _), connect(port) as client:
        assert client.execute("SELECT a FROM t").fetchall() == [(1,)]
        stopped_by(process, signal.SIGTERM)
        assert process.stderr is not None
        logged = [json.loads(text) for text in process.stderr.read().splitlines()]
        assert "stopped" in [event["event"] for event in logged]


def test_run_executes_a_file(tmp_path: Path) -> None:
    script = tmp_path / "a.sql"
    script.write_text(
        "CREATE TABLE t (a INT, b VARCHAR);\nINSERT INTO t VALUES (1, 'x'), (22, NULL);\n"
        "SELECT a, b AS name FROM t ORDER BY a;\n"
    )
    done = run("run", str(script))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "CREATE TABLE", "INSERT 0 2", " a  | name", " -- | ----", " 1  | x", " 22 |", "SELECT 2",
    ]  # fmt: skip


def test_run_names_the_line_of_an_error_and_stops(tmp_path: Path) -> None:
    script = tmp_path / "a.sql"
    script.write_text("SELECT 1;\nSELECT\n  nope;\nSELECT 2;\n")
    done = run("run", str(script))
    assert done.returncode == 1
    assert f"{script}:3: ERROR 42703" in done.stderr
    assert "SELECT 2" not in done.stdout
    done = run("run", "--keep-going", str(script))
    assert done.returncode == 1
    assert done.stdout.count("SELECT 1") == 2


def test_run_goes_on_after_a_syntax_error_and_parses_each_statement_as_the_one_before_left_it(
    tmp_path: Path,
) -> None:
    script = tmp_path / "s.sql"
    script.write_text(
        "SELECT 1 AS one;\nSELEC 2;\nSET dialect = 'flink';\nSELECT 3 AS Three;\nSELECT 'open"
    )
    done = run("run", str(script))
    assert done.returncode == 1
    assert "one" in done.stdout and "three" not in done.stdout.lower()
    assert f"{script}:2: ERROR 42601: syntax error at or near" in done.stderr
    done = run("run", "--keep-going", str(script))
    assert done.returncode == 1
    assert "Three" in done.stdout
    assert f"{script}:2: ERROR 42601" in done.stderr
    assert f"{script}:5: ERROR 42601: unterminated quoted string" in done.stderr


def test_help_of_bench_shows_its_options() -> None:
    for flag in ("--help", "-h"):
        done = run("bench", flag)
        assert done.returncode == 0
        assert "--tick-rows" in done.stdout and "--json" in done.stdout
