"""Every example runs, and each of its views equals DuckDB's batch answer over the raw files."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
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


def oracle() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    return con


def batch_sql(con: duckdb.DuckDBPyConnection, sql: str) -> str:
    """The oracle's query over the data; what only a row-by-row rule can tell is filled in."""
    late = []
    if "{late}" in sql:
        late = late_for_swarms(con.execute(ARRIVALS.format(data=DATA)).fetchall())
    return sql.format(data=DATA, late=late)


def differences(got: pa.Table, sql: str) -> tuple[list[tuple], list[tuple]]:
    """(rows of the batch answer that are missing, rows that it has not), a few of each; as bags,
    inexact numbers to six digits behind the point."""
    with oracle() as con:
        names = [f"c{i}" for i in range(got.num_columns)]
        con.register("got", got.rename_columns(names))
        con.execute(
            f"CREATE TABLE expected AS SELECT * FROM ({batch_sql(con, sql)}) q({', '.join(names)})"
        )
        inexact = (pa.types.is_floating, pa.types.is_decimal)
        columns = ", ".join(
            f"round(CAST({name} AS DOUBLE), 6)" if any(is_(field.type) for is_ in inexact) else name
            for name, field in zip(names, got.schema, strict=True)
        )
        one, other = f"SELECT {columns} FROM expected", f"SELECT {columns} FROM got"
        return tuple(
            con.execute(f"({a}) EXCEPT ALL ({b}) LIMIT 3").fetchall()
            for a, b in ((one, other), (other, one))
        )


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
        got = session.execute(f"SELECT * FROM {view}").arrow()
        assert got.num_rows > 0
        missing, unexpected = differences(got, sql)
        assert (missing, unexpected) == ([], []), view


def test_example_queries_run(example):
    name, session = example
    for statement in session.parse(script(name, "queries.sql")):
        result = session.run(statement)
        assert result.fetchall() or result.tag == "FLUSH", statement.sql


def test_late_reports_are_recorded(example):
    name, session = example
    if name != "earthquakes":
        pytest.skip("only the earthquakes are out of order")
    sql = "SELECT count(*) FROM streamsql.late_rows WHERE view = '{}'"
    for view in ("hourly_on_time", "hourly_final"):
        with oracle() as con:
            expected = con.execute(LATE_QUAKES.format(data=DATA)).fetchall()
        assert session.execute(sql.format(view)).fetchall() == expected
    with oracle() as con:
        late = late_for_swarms(con.execute(ARRIVALS.format(data=DATA)).fetchall())
    assert session.execute(sql.format("swarms")).fetchall() == [(len(late),)]
