"""Views of one name in two schemas are told apart by every system relation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import streamsql
from streamsql.engine.database import Database

SETUP = """
    CREATE SCHEMA a; CREATE SCHEMA b;
    CREATE TABLE t (id INT, n INT, ts TIMESTAMP, WATERMARK FOR ts AS ts);
    CREATE MATERIALIZED VIEW a.v AS SELECT id, 10 / n AS r FROM t;
    CREATE MATERIALIZED VIEW b.v AS SELECT id, 20 / (n - 1) AS r FROM t;
    CREATE MATERIALIZED VIEW a.w AS SELECT window_start, count(*) FROM TUMBLE(t, ts, INTERVAL '1 minute') GROUP BY 1;
    CREATE MATERIALIZED VIEW b.w AS SELECT window_start, sum(n) FROM TUMBLE(t, ts, INTERVAL '1 hour') GROUP BY 1;
    INSERT INTO t VALUES (1, 0, '2024-01-01 00:10'), (2, 1, '2024-01-01 00:30'), (3, 1, '2024-01-01 00:05');
"""
ERRORS = "SELECT schema_name, view, row ->> 'id' FROM streamsql.view_errors ORDER BY 1, 2, 3"
LATE = "SELECT schema_name, view, row ->> 'id' FROM streamsql.late_rows ORDER BY 1, 2, 3"
BAD = "SELECT schema_name, source, payload FROM streamsql.source_errors"


@pytest.fixture
def both(db: Database) -> Iterator[Database]:
    for statement in SETUP.split(";"):
        if statement.strip():
            db.execute(statement)
    yield db


def test_errors_and_late_rows_name_the_schema(both: Database) -> None:
    assert both.execute(ERRORS).fetchall() == [("a", "v", "1"), ("b", "v", "2"), ("b", "v", "3")]
    assert both.execute(LATE).fetchall() == [("a", "w", "3")]


def test_what_runs_names_the_schema(both: Database) -> None:
    for relation, column in (
        ("jobs", "relation"), ("operators", "view"), ("retained_versions", "relation"),
    ):  # fmt: skip
        sql = (
            f"SELECT DISTINCT schema_name FROM streamsql.{relation} WHERE {column} = 'w' ORDER BY 1"
        )
        assert both.execute(sql).fetchall() == [("a",), ("b",)], relation
    marks = "SELECT DISTINCT schema_name, relation FROM streamsql.watermarks ORDER BY 1, 2"
    assert both.execute(marks).fetchall() == [("a", "v"), ("a", "w"), ("b", "v"), ("b", "w"), ("public", "t")]  # fmt: skip
    shown = both.execute("SHOW JOBS LIKE 'v'").fetchall()
    assert [(row[2], row[-1]) for row in shown] == [("v", "a"), ("v", "b")]
    both.execute("CREATE INDEX i ON a.v (id)")
    found = both.execute("SELECT relation, schema_name FROM streamsql.indexes").fetchall()
    assert found == [("v", "a")]


def test_dropping_and_renaming_one_leaves_the_other(both: Database) -> None:
    both.execute("DROP MATERIALIZED VIEW a.v")
    assert both.execute(ERRORS).fetchall() == [("b", "v", "2"), ("b", "v", "3")]
    both.execute("CREATE MATERIALIZED VIEW a.v AS SELECT id, 10 / n AS r FROM t")
    both.execute("ALTER MATERIALIZED VIEW b.v RENAME TO x")
    assert both.execute(ERRORS).fetchall() == [("a", "v", "1"), ("b", "x", "2"), ("b", "x", "3")]
    both.execute("ALTER MATERIALIZED VIEW b.w RENAME TO y")
    assert both.execute(LATE).fetchall() == [("a", "w", "3")]
    both.execute("DROP MATERIALIZED VIEW b.y")
    assert both.execute(LATE).fetchall() == [("a", "w", "3")]
    both.execute("DELETE FROM t WHERE id = 1")
    assert both.execute(ERRORS).fetchall() == [("b", "x", "2"), ("b", "x", "3")]


def test_schemas_outlive_a_restart(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("1\nx\n")
    with streamsql.connect(tmp_path / "d") as db:
        for statement in SETUP.split(";"):
            if statement.strip():
                db.execute(statement)
        db.execute("CREATE TABLE b.s (id INT) WITH (connector = 'file', path = "
                   f"'{tmp_path}/in.csv') FORMAT PLAIN ENCODE CSV (header = false)")  # fmt: skip
        db.execute("FLUSH")
        before = [db.execute(q).fetchall() for q in (ERRORS, LATE, BAD)]
        assert before[2] == [("b", "s", "x")]
    with streamsql.connect(tmp_path / "d") as db:
        assert [db.execute(q).fetchall() for q in (ERRORS, LATE, BAD)] == before


def test_another_schema_takes_what_was_recorded_along(both: Database) -> None:
    both.execute(
        "CREATE MATERIALIZED VIEW seen AS SELECT schema_name, view FROM streamsql.view_errors"
    )
    both.execute("CREATE SCHEMA c")
    both.execute("ALTER MATERIALIZED VIEW b.v SET SCHEMA c")
    both.execute("ALTER MATERIALIZED VIEW a.w SET SCHEMA c")
    assert both.execute(ERRORS).fetchall() == [("a", "v", "1"), ("c", "v", "2"), ("c", "v", "3")]
    assert both.execute(LATE).fetchall() == [("c", "w", "3")]
    both.execute("INSERT INTO t VALUES (4, 1, '2024-01-01 00:06')")
    assert both.execute(LATE).fetchall() == [("c", "w", "3"), ("c", "w", "4")]
    both.execute("DELETE FROM t WHERE id = 3")
    assert both.execute(ERRORS).fetchall() == [("a", "v", "1"), ("c", "v", "2"), ("c", "v", "4")]
    found = both.execute("SELECT * FROM seen ORDER BY 1").fetchall()
    assert found == [("a", "v"), ("c", "v"), ("c", "v")]
    both.execute("DROP MATERIALIZED VIEW c.v; DROP MATERIALIZED VIEW c.w")
    assert both.execute(ERRORS).fetchall() == [("a", "v", "1")]
    assert both.execute(LATE).fetchall() == []


def test_views_that_exchange_their_names_exchange_what_was_recorded(both: Database) -> None:
    both.execute("ALTER MATERIALIZED VIEW a.v SWAP WITH b.v")
    assert both.execute(ERRORS).fetchall() == [("a", "v", "2"), ("a", "v", "3"), ("b", "v", "1")]
    both.execute("ALTER MATERIALIZED VIEW a.w SWAP WITH b.w")
    assert both.execute(LATE).fetchall() == [("b", "w", "3")]
    both.execute("DELETE FROM t WHERE id = 1")
    assert both.execute(ERRORS).fetchall() == [("a", "v", "2"), ("a", "v", "3")]


@pytest.mark.parametrize("kind", ["TABLE", "SOURCE"])
def test_errors_of_what_is_read_move_to_its_new_schema(
    kind: str, db: Database, tmp_path: Path
) -> None:
    (tmp_path / "in.csv").write_text("1\nx\n")
    form = f"WITH (connector = 'file', path = '{tmp_path}/in.csv') FORMAT PLAIN ENCODE CSV (header = false)"
    db.execute(f"CREATE SCHEMA a; CREATE SCHEMA b; CREATE {kind} a.s (id INT) {form}")
    db.execute(f"CREATE {kind} b.s (id INT) {form}")
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT id FROM a.s; FLUSH")
    bad = [row[:2] for row in db.execute(BAD + " ORDER BY 1").fetchall()]
    assert ("a", "s") in bad
    db.execute(f"ALTER {kind} a.s SET SCHEMA public")
    moved = [("public", n) if s == "a" else (s, n) for s, n in bad]
    assert sorted(row[:2] for row in db.execute(BAD).fetchall()) == sorted(moved)
