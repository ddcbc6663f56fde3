"""The REPL over a server."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from streamsql_repl.answer import ConnectionLost, StatementFailed
from streamsql_repl.backends.connected import ConnectedBackend, conninfo_of
from streamsql_repl.live import LiveView, parse_live
from streamsql_repl.screen import Screen

from .fakes import shell


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """host:port of a server in memory."""
    process = subprocess.Popen(
        [sys.executable, "-m", "streamsql", "serve", "--port", "0", "--memory"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    address = ""
    for line in process.stdout:
        if " ready on " in line:
            address = line.split(" ready on ")[1].split()[0]
            break
    assert address, "the server did not start"
    yield address
    process.terminate()
    process.wait(10)
    process.stdout.close()


@pytest.fixture
def backend(server: str) -> Iterator[ConnectedBackend]:
    found = ConnectedBackend(server)
    yield found
    found.close()


@pytest.mark.parametrize(
    ("dsn", "conninfo"),
    [
        ("h:1", "host=h port=1"),
        ("h", "host=h port=4566"),
        (":1", "host=127.0.0.1 port=1"),
        ("", "host=127.0.0.1 port=4566"),
        ("postgresql://u@h/d", "postgresql://u@h/d"),
        ("host=h", "host=h"),
    ],
)
def test_dsn_forms(dsn: str, conninfo: str) -> None:
    assert conninfo_of(dsn) == conninfo


def test_connected_runs_statements_and_shows_rows(backend: ConnectedBackend) -> None:
    sh, out, err = shell(backend)
    sh.feed(
        "create table r (a int primary key, b text); insert into r values (1, 'x'), (22, null);"
    )
    sh.feed("select * from r order by a;")
    sh.feed("insert into r values (3, 'y') returning b;")
    assert err.getvalue() == ""
    assert out.getvalue().splitlines() == [
        "CREATE TABLE", "INSERT 0 2",
        "  a │ b", "────┼──────", "  1 │ x", " 22 │ NULL", "(2 rows)",
        " b", "───", " y", "(1 row)", "INSERT 0 1",
    ]  # fmt: skip


def test_connected_error_has_position_sqlstate_and_hint(backend: ConnectedBackend) -> None:
    sh, _, err = shell(backend, verbose=True)
    sh.feed("select nope;")
    lines = err.getvalue().splitlines()
    assert lines[0] == 'ERROR:  42703: column "nope" does not exist'
    assert lines[1:3] == ["LINE 1: select nope", "               ^"]
    sh.feed("select 1;")
    assert backend.status == "I"


def test_connected_error_in_the_middle_of_rows_is_reported(backend: ConnectedBackend) -> None:
    sh, _, err = shell(backend)
    sh.feed("select 1 / (a - 3) from generate_series(1, 5) as g(a);")
    assert "division by zero" in err.getvalue()
    assert sh.feed("select 1;")


def test_connected_transaction_status(backend: ConnectedBackend) -> None:
    sh, _, _ = shell(backend)
    sh.feed("begin;")
    assert backend.status == "T"
    sh.feed("select nope;")
    assert backend.status == "E"
    sh.feed("rollback;")
    assert backend.status == "I"


def test_connected_copies_in_and_out(backend: ConnectedBackend) -> None:
    sh, out, err = shell(backend)
    sh.run_lines(
        [
            "create table c2 (a int, b text);\n",
            "copy c2 from stdin (format csv);\n",
            "1,a\n",
            "2,\n",
            "\\.\n",
            "copy c2 to stdout;\n",
        ]
    )
    assert err.getvalue() == ""
    assert out.getvalue().splitlines() == ["CREATE TABLE", "COPY 2", "1\ta", "2\t\\N"]
    sh.run_lines(["copy c2 from stdin;\n", "oops\n", "\\.\n"])
    assert "ERROR" in err.getvalue()
    assert sh.feed("select 1;")


def test_connected_notice_is_shown(backend: ConnectedBackend) -> None:
    sh, _, err = shell(backend)
    sh.feed("drop table if exists not_there;")
    assert err.getvalue().startswith("NOTICE:  ")


def test_connected_live_view_streams_changes(backend: ConnectedBackend) -> None:
    sh, _, err = shell(backend)
    sh.feed(
        "create table l (k text, n int); create materialized view lv as select k, sum(n) as n from l group by k;"
    )
    sh.feed("insert into l values ('a', 1);")
    assert err.getvalue() == ""
    own = backend.second()
    live = LiveView(own, parse_live("lv"), Screen(io.StringIO(), io.StringIO(), fixed_width=80))
    thread = threading.Thread(target=live._read)
    thread.start()
    wait_for(lambda: live.rows.weights.get(("a", "1")) == 1)
    sh.feed("insert into l values ('a', 4), ('b', 1);")
    wait_for(lambda: live.rows.weights == {("a", "5"): 1, ("b", "1"): 1})
    own.cancel()
    thread.join(10)
    assert not thread.is_alive()
    own.close()


def wait_for(condition) -> None:  # type: ignore[no-untyped-def]
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def test_connected_conninfo_names_host_and_port(server: str, backend: ConnectedBackend) -> None:
    host, port = server.split(":")
    assert f'on host "{host}" at port "{port}"' in backend.describe()


def test_connected_to_nothing_is_a_lost_connection() -> None:
    with pytest.raises(ConnectionLost):
        ConnectedBackend("127.0.0.1:1")


def test_connected_cancel_stops_a_subscription(backend: ConnectedBackend) -> None:
    sh, _, _ = shell(backend)
    sh.feed("create table s (a int); insert into s values (1);")
    answer = backend.run("subscribe s")
    batches = iter(answer.batches)
    assert next(batches)[0][-1] == "1"
    backend.cancel()
    with pytest.raises(StatementFailed, match="cancel"):
        for _ in batches:
            pass


@pytest.mark.parametrize("sql", ["subscribe to shown", "-- all\nSELECT * FROM shown EMIT CHANGES"])
def test_connected_subscription_is_shown_while_it_goes_on(
    backend: ConnectedBackend, sql: str
) -> None:
    other = backend.second()
    for statement in (
        "DROP TABLE IF EXISTS shown",
        "CREATE TABLE shown (a INT)",
        "INSERT INTO shown VALUES (41)",
    ):
        list(other.run(statement).batches or ())
    sh, out, _ = shell(backend)
    reader = threading.Thread(target=lambda: sh.feed(sql + ";"), daemon=True)
    reader.start()
    try:
        for value in (41, 42):
            if value == 42:
                list(other.run("INSERT INTO shown VALUES (42)").batches or ())
            until = time.monotonic() + 10
            while f"{value}" not in out.getvalue():
                assert time.monotonic() < until, out.getvalue()
                time.sleep(0.01)
    finally:
        backend.cancel()
        reader.join(10)
        other.close()
    assert not reader.is_alive()
