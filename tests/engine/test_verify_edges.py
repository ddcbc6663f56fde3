"""Views that were wrong beside VERIFY, or VERIFY beside them: values whose order DuckDB has not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamsql.core.errors import StreamSqlError
from streamsql.engine.database import Database


@pytest.fixture
def db() -> Iterator[Database]:
    with Database() as database:
        database.execute(
            "CREATE TABLE x (c JSONB); CREATE TABLE y (c JSONB); "
            "INSERT INTO x VALUES ('[1,2]'), ('2'); INSERT INTO y VALUES ('true'), ('10')"
        )
        yield database


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT x.c, y.c AS d FROM x JOIN y ON x.c < y.c", [("2", "true"), ("2", "10")]),
        (
            "SELECT x.c, y.c AS d FROM x LEFT JOIN y ON x.c < y.c",
            [("[1, 2]", None), ("2", "true"), ("2", "10")],
        ),
        ("SELECT c FROM x WHERE EXISTS (SELECT 1 FROM y WHERE y.c > x.c)", [("2",)]),
        ("SELECT c FROM x WHERE c < ANY (SELECT c FROM y)", [("2",)]),
        ("SELECT least(x.c, y.c) AS c FROM x JOIN y ON y.c = 'true'", [("true",), ("2",)]),
    ],
)
def test_jsonb_in_its_own_order(db: Database, query: str, rows: list[tuple[str, ...]]) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    wanted = sorted(map(repr, rows))
    assert sorted(map(repr, db.execute("SELECT * FROM v").fetchall())) == wanted
    assert sorted(map(repr, db.execute(query).fetchall())) == wanted
    assert db.execute("VERIFY MATERIALIZED VIEW v").fetchall() == []


def test_the_greater_interval_by_its_length(db: Database) -> None:
    db.execute("CREATE TABLE i (a INTERVAL, b INTERVAL)")
    query = "SELECT greatest(a, b)::text AS g, least(a, b)::text AS l FROM i"
    db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    db.execute("INSERT INTO i VALUES ('30 days', '720:00:01')")
    assert db.execute("SELECT * FROM v").fetchall() == [("720:00:01", "30 days")]
    assert db.execute("VERIFY MATERIALIZED VIEW v").fetchall() == []


def test_verify_of_a_failed_view_gives_its_error(db: Database) -> None:
    db.execute("CREATE TABLE n (a INT)")
    db.execute("CREATE MATERIALIZED VIEW v WITH (on_error = 'fail') AS SELECT 1 / a AS r FROM n")
    db.execute("INSERT INTO n VALUES (0)")
    with pytest.raises(StreamSqlError) as read:
        db.execute("SELECT * FROM v")
    with pytest.raises(StreamSqlError) as verified:
        db.execute("VERIFY MATERIALIZED VIEW v")
    assert verified.value.sqlstate == read.value.sqlstate
