"""Every example runs, and each of its views equals DuckDB's batch answer over the raw files."""

from __future__ import annotations

import datetime as dt
import decimal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import streamsql
from tests.examples.oracle import ARRIVALS, LATE_QUAKES, VIEWS, late_for_swarms

EXAMPLES = Path(__file__).parents[2] / "sql-examples"
DATA = EXAMPLES / "data"
ROWS = {
    "flights": {"departures": 336_776, "weather": 26_115, "airlines": 16},
    "earthquakes": {"quakes": 1_707},
}
DEADLINE_SECONDS = 120


def script(example: str, name: str) -> str:
    text = (EXAMPLES / example / name).read_text("utf-8")
    return text.replace("'sql-examples/data", f"'{DATA}")


def plain(value: object) -> object:
    """A value that the two engines spell in one way: floats to 9 digits, times in UTC."""
    if isinstance(value, decimal.Decimal | float):
        return float(f"{float(value):.9g}")
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC).replace(tzinfo=None)
    return value


def bag(rows: list[tuple]) -> Counter:
    return Counter(tuple(plain(v) for v in row) for row in rows)


def batch(sql: str) -> list[tuple]:
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'")
        late = []
        if "{late}" in sql:
            late = late_for_swarms(con.execute(ARRIVALS.format(data=DATA)).fetchall())
        return con.execute(sql.format(data=DATA, late=late)).fetchall()


@pytest.fixture(scope="module", params=list(VIEWS))
def example(request) -> Iterator[tuple[str, object]]:
    name = request.param
    database = streamsql.connect(":memory:")
    for statement in (session := database.session()).parse(script(name, "setup.sql")):
        session.run(statement)
    deadline = time.monotonic() + DEADLINE_SECONDS
    for table, expected in ROWS[name].items():
        while session.execute(f"SELECT count(*) FROM {table}").fetchall() != [(expected,)]:
            assert time.monotonic() < deadline, f"{table} did not fill"
            time.sleep(0.02)
    session.execute("FLUSH")
    yield name, session
    session.close()
    database.close()


def test_example_reads_every_row(example):
    _, session = example
    assert session.execute("SELECT * FROM streamsql.source_errors").fetchall() == []


def test_example_views_equal_the_batch_answer(example):
    name, session = example
    for view, sql in VIEWS[name].items():
        got = bag(session.execute(f"SELECT * FROM {view}").fetchall())
        expected = bag(batch(sql))
        missing, extra = expected - got, got - expected
        assert not missing and not extra, (
            f"{view}: missing {list(missing.items())[:3]}, not expected {list(extra.items())[:3]}"
        )


def test_example_queries_run(example):
    name, session = example
    for statement in session.parse(script(name, "queries.sql")):
        assert session.run(statement).fetchall(), statement.sql


def test_late_reports_are_recorded(example):
    name, session = example
    if name != "earthquakes":
        pytest.skip("only the earthquakes are out of order")
    sql = "SELECT count(*) FROM streamsql.late_rows WHERE view = '{}'"
    for view in ("hourly_on_time", "hourly_final"):
        assert session.execute(sql.format(view)).fetchall() == batch(LATE_QUAKES)
    with duckdb.connect() as con:
        late = late_for_swarms(con.execute(ARRIVALS.format(data=DATA)).fetchall())
    assert session.execute(sql.format("swarms")).fetchall() == [(len(late),)]
