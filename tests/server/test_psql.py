"""psql on a real database: what works through the protocol alone (\\d and its kin: see pgcatalog)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from streamsql_server.server import Server

import streamsql

PSQL = shutil.which("psql")
pytestmark = pytest.mark.skipif(PSQL is None, reason="psql is not installed")


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with streamsql.connect() as database, Server(database, "127.0.0.1", 0) as server:
        session = database.session()
        session.execute("CREATE TABLE numbers (n INT PRIMARY KEY, name VARCHAR)")
        session.execute(
            "INSERT INTO numbers SELECT g, 'name ' || g FROM generate_series(1, 250) t(g)"
        )
        session.execute("CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n FROM numbers")
        session.close()
        yield server.port


def psql(port: int, script: str, *options: str, cwd: Path | None = None) -> tuple[str, str]:
    """stdout and stderr of a script on standard input."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
    assert PSQL is not None
    done = subprocess.run(
        [PSQL, "-X", "-q", "-h", "127.0.0.1", "-p", str(port), "-U", "me", "-d", "streamsql", *options],
        input=script, capture_output=True, text=True, timeout=60, env=environment, cwd=cwd, check=False,
    )  # fmt: skip
    return done.stdout, done.stderr


def test_aligned_rows_and_nulls(port: int) -> None:
    out, err = psql(
        port,
        "\\pset null '∅'\nSELECT n, name, NULL::text AS none FROM numbers WHERE n < 3 ORDER BY n;\n",
    )
    assert err == ""
    assert out.splitlines() == [
        " n |  name  | none ", "---+--------+------", " 1 | name 1 | ∅", " 2 | name 2 | ∅", "(2 rows)", "",
    ]  # fmt: skip


def test_error_shows_the_line_and_the_place(port: int) -> None:
    _, err = psql(port, "SELECT n,\n  nope FROM numbers;\n")
    assert err.splitlines()[:3] == [
        'ERROR:  column "nope" does not exist', "LINE 2:   nope FROM numbers;", "          ^",
    ]  # fmt: skip


def test_fetch_count_reads_through_a_cursor(port: int) -> None:
    out, err = psql(port, "\\set FETCH_COUNT 100\nSELECT n FROM numbers ORDER BY n;\n", "-At")
    assert err == ""
    assert out.split() == [str(n) for n in range(1, 251)]


def test_gdesc_describes_without_running(port: int) -> None:
    out, err = psql(port, "SELECT n, name, 1.5::numeric(5,2) AS p FROM numbers \\gdesc\n", "-At")
    assert err == ""
    assert out.splitlines() == ["n|integer", "name|character varying", "p|numeric(5,2)"]


def test_copy_to_and_from_files(port: int, tmp_path: Path) -> None:
    script = (
        "\\copy (SELECT * FROM numbers WHERE n <= 3 ORDER BY n) to 'a.csv' csv header\n"
        "CREATE TABLE copied (n INT, name VARCHAR);\n"
        "\\copy copied from 'a.csv' csv header\n"
        "\\copy copied (name, n) from stdin\nfour\t4\n\\N\t5\n\\.\n"
        "SELECT * FROM copied ORDER BY n;\nDROP TABLE copied;\n"
    )
    out, err = psql(port, script, "-At", cwd=tmp_path)
    assert err == ""
    assert (tmp_path / "a.csv").read_text() == "n,name\n1,name 1\n2,name 2\n3,name 3\n"
    assert out.splitlines() == ["1|name 1", "2|name 2", "3|name 3", "4|four", "5|"]


def test_copy_in_with_a_bad_row_changes_nothing(port: int) -> None:
    script = "CREATE TABLE bad (n INT);\n\\copy bad from stdin\n1\nx\n\\.\nSELECT count(*) FROM bad;\nDROP TABLE bad;\n"
    out, err = psql(port, script, "-At")
    assert "invalid input syntax for type integer" in err
    assert out.strip() == "0"


def test_several_statements_in_one_text_are_one_transaction(port: int) -> None:
    out, err = psql(
        port, "", "-At",
        "-c", "INSERT INTO numbers VALUES (1000, 'x'); INSERT INTO numbers VALUES (1, 'twice')",
        "-c", "SELECT count(*) FROM numbers WHERE n = 1000",
    )  # fmt: skip
    assert "23505" in err or "duplicate key" in err
    assert out.strip() == "0"


def test_transactions_and_on_error_rollback(port: int) -> None:
    script = (
        "\\set ON_ERROR_ROLLBACK on\nBEGIN;\nINSERT INTO numbers VALUES (2000, 'y');\nSELECT 1/0;\n"
        "SELECT count(*) FROM numbers WHERE n = 2000;\nROLLBACK;\nSELECT count(*) FROM numbers WHERE n = 2000;\n"
    )
    out, err = psql(port, script, "-At")
    assert err == "ERROR:  division by zero\n"
    assert out.split() == ["1", "0"]


def test_gset_gexec_and_variables(port: int) -> None:
    script = (
        "SELECT max(n) AS top FROM numbers \\gset\nSELECT :top + 1;\n"
        "SELECT 'SELECT ' || n FROM numbers WHERE n IN (7, 8) ORDER BY n \\gexec\n"
    )
    out, err = psql(port, script, "-At")
    assert err == ""
    assert out.split() == ["251", "7", "8"]


def test_conninfo_encoding_and_timing(port: int) -> None:
    out, err = psql(port, "\\conninfo\n\\encoding\nSHOW server_version;\n", "-At")
    assert err == ""
    assert 'database "streamsql" as user "me" on host "127.0.0.1"' in out
    assert "UTF8" in out


class Terminal:
    """psql as a person sees it."""

    def __init__(self, port: int) -> None:
        import pexpect

        environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")} | {
            "TERM": "dumb",
            "PAGER": "cat",
        }
        assert PSQL is not None
        self.child = pexpect.spawn(
            PSQL, ["-X", "-q", "-n", "-h", "127.0.0.1", "-p", str(port), "-U", "me", "-d", "streamsql"],
            env=environment, timeout=20, encoding="utf-8",
        )  # fmt: skip
        self.child.expect("streamsql=>|streamsql=#")

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *error: object) -> None:
        self.child.close(force=True)

    def wait(self, text: str) -> None:
        self.child.expect(text)


def test_watch_shows_a_view_changing(port: int) -> None:
    with Terminal(port) as terminal:
        terminal.child.sendline("SELECT n AS total FROM total \\watch 0.2")
        terminal.wait("250")
        psql(port, "INSERT INTO numbers VALUES (5000, 'z');\n")
        terminal.wait("251")
        psql(port, "DELETE FROM numbers WHERE n = 5000;\n")
        terminal.wait("250")
        terminal.child.sendintr()
        terminal.wait("streamsql=[>#]")


def test_ctrl_c_cancels_a_query_and_a_subscription(port: int) -> None:
    with Terminal(port) as terminal:
        terminal.child.sendline(
            "SELECT sum(a.g * b.g) FROM generate_series(1, 300000) a(g), generate_series(1, 300000) b(g);"
        )
        terminal.child.expect("generate_series.*\n")
        import time

        time.sleep(0.5)
        terminal.child.sendintr()
        terminal.wait("canceling statement due to user request")
        terminal.wait("streamsql=[>#]")
        terminal.child.sendline("COPY (SUBSCRIBE total) TO STDOUT;")
        terminal.wait("\t250")
        terminal.child.sendintr()
        terminal.wait("canceling statement due to user request")
        terminal.wait("streamsql=[>#]")
        terminal.child.sendline("SELECT 40 + 2;")
        terminal.wait("42")
