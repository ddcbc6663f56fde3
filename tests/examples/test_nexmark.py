"""Nexmark: every view of the example equals DuckDB's batch answer and, where they are at hand, the digests that other
engines' results were checked against."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from streamsql_server.benchmark import feed
from streamsql_server.benchmark.nexmark_queries import QUERIES

import streamsql
from streamsql.connectors.nexmark import NexmarkSource
from streamsql.core.schema import Schema

EVENTS = 100_000
FOLDER = Path(__file__).parents[2] / "sql-examples" / "nexmark"
DIGESTS = Path(__file__).parents[3] / "shared" / "bench"
NAMES = [query.name for query in QUERIES]


def view_sql(name: str) -> str:
    return (FOLDER / f"{name}.sql").read_text("utf-8")


@pytest.fixture(scope="module")
def database() -> Iterator[streamsql.Database]:
    """All views at once over one set of sources."""
    schema = (FOLDER / "schema.sql").read_text("utf-8")
    assert schema.count("events = '1000000'") == 3
    with streamsql.connect(":memory:") as db:
        db.execute(schema.replace("events = '1000000'", f"events = '{EVENTS}'"))
        for name in NAMES:
            db.execute(view_sql(name))
        db.execute("FLUSH")
        yield db


@pytest.fixture(scope="module")
def oracle() -> Iterator[duckdb.DuckDBPyConnection]:
    """The same events as DuckDB tables."""
    with duckdb.connect() as con:
        for table in ("person", "auction", "bid"):
            schema = Schema.of(*feed.columns_of(table))
            source = NexmarkSource({"table.type": table, "events": str(EVENTS)}, schema)
            batches = [part.batch for part in source.poll(EVENTS)]
            given = pa.Table.from_batches(batches).rename_columns(schema.names)
            con.register("given", given)
            con.execute(f"CREATE TABLE {table} AS SELECT * FROM given")
        con.execute(
            "CREATE TABLE side_input AS SELECT i AS key, i::VARCHAR AS value FROM range(10000) r(i)"
        )
        yield con


def test_every_file_of_the_example_is_a_view_that_is_tested():
    files = {path.stem for path in FOLDER.glob("*.sql")} - {"schema"}
    assert files == set(NAMES)
    for name in NAMES:
        assert re.search(rf"^CREATE MATERIALIZED VIEW {name} AS$", view_sql(name), re.M)


@pytest.mark.parametrize("query", QUERIES, ids=NAMES)
def test_view_equals_the_batch_answer(database, oracle, query):
    got = database.execute(f"SELECT * FROM {query.name}").arrow()
    oracle.execute(f"CREATE OR REPLACE TABLE expected AS {query.sql}")
    types = {name: type_ for name, type_, *_ in oracle.execute("DESCRIBE expected").fetchall()}
    assert got.num_rows > 0 and got.schema.names == list(types)
    oracle.register("got", got)
    row = ", ".join(f'"{name}"::{types[name]}' for name in query.determined or types)
    for one, other in (("got", "expected"), ("expected", "got")):
        sql = f"(SELECT {row} FROM {one}) EXCEPT ALL (SELECT {row} FROM {other}) LIMIT 3"
        assert oracle.execute(sql).fetchall() == []


@pytest.mark.parametrize("name", NAMES)
def test_view_is_incremental(database, name):
    lines = database.execute(f"EXPLAIN MATERIALIZED VIEW {name}").fetchall()
    assert lines[0] == ("Maintenance: incremental",)


@pytest.fixture(scope="module")
def digest() -> Iterator:
    if not (DIGESTS / "expected.json").is_file():
        pytest.skip(f"the digests are not here: {DIGESTS}")
    sys.path.insert(0, str(DIGESTS))
    try:
        yield importlib.import_module("digest").digest
    finally:
        sys.path.remove(str(DIGESTS))


@pytest.mark.parametrize("name", NAMES)
def test_digest_is_the_expected_one(database, digest, name):
    expected = json.loads((DIGESTS / "expected.json").read_text("utf-8"))["100k"]
    assert digest(name, database.execute(f"SELECT * FROM {name}").arrow()) == expected[name]
