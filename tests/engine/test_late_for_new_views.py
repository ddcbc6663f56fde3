"""What was dropped before a view was made is told of for that view too, once."""

from __future__ import annotations

import time

import pytest

from streamsql.core import errors

TUMBLE = "TUMBLE(a, t, INTERVAL '10 seconds')"
QUERIES = {
    "tumble": f"SELECT window_start, count(*) AS n FROM {TUMBLE} GROUP BY 1",
    "hop": "SELECT window_start, count(*) AS n"
    " FROM HOP(a, t, INTERVAL '5 seconds', INTERVAL '10 seconds') GROUP BY 1",
    "cumulate": "SELECT window_start, window_end, count(*) AS n"
    " FROM CUMULATE(a, t, INTERVAL '5 seconds', INTERVAL '10 seconds') GROUP BY 1, 2",
    "session": "SELECT window_start, count(*) AS n"
    " FROM SESSION(a, t, INTERVAL '2 seconds') GROUP BY 1",
    "rows": f"SELECT window_start, id FROM {TUMBLE}",
    "hop_rows": "SELECT window_start, id"
    " FROM HOP(a, t, INTERVAL '5 seconds', INTERVAL '10 seconds')",
    "cumulate_rows": "SELECT window_end, id"
    " FROM CUMULATE(a, t, INTERVAL '5 seconds', INTERVAL '10 seconds')",
}
LATE = "SELECT view, source, row->>'id', event_time::TEXT, watermark::TEXT FROM streamsql.late_rows"


def insert(db, *rows):
    values = ", ".join(f"({i}, '2024-01-01 00:00:{s:02d}')" for i, s in rows)
    db.execute(f"INSERT INTO a VALUES {values}")


def expected(*views):
    at = "2024-01-01 00:00:"
    return sorted((view, "a", "3", f"{at}06", f"{at}15") for view in views)


def wait_for(db, view):
    """Until a view that is filled in the background is there."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            return db.execute(f"SELECT * FROM {view}")
        except errors.StreamSqlError:
            continue
    raise AssertionError(f"{view} did not appear")


@pytest.fixture
def filled(db):
    db.execute("CREATE TABLE a (id INT PRIMARY KEY, t TIMESTAMP, WATERMARK FOR t AS t)")
    return db


@pytest.mark.parametrize("kind", QUERIES)
@pytest.mark.parametrize("background", ["off", "on"])
def test_late_rows_of_views_made_before_between_and_after(filled, rows, kind, background):
    db, query = filled, QUERIES[kind]
    db.execute(f"CREATE MATERIALIZED VIEW first AS {query}")
    db.execute(f"CREATE MATERIALIZED VIEW same AS {query}")
    insert(db, (1, 5), (2, 15), (3, 6))
    db.execute(f"SET background_ddl = {background}")
    db.execute(f"CREATE MATERIALIZED VIEW second AS {query}")
    wait_for(db, "second")
    db.execute(f"CREATE MATERIALIZED VIEW third AS {query}")
    wait_for(db, "third")
    db.execute("CREATE MATERIALIZED VIEW over AS SELECT * FROM first")
    wait_for(db, "over")
    assert sorted(rows(LATE)) == expected("first", "same", "second", "third")
    for view in ("same", "second", "third"):
        assert rows(f"SELECT * FROM {view} EXCEPT ALL SELECT * FROM first") == []


@pytest.mark.parametrize("kind", QUERIES)
def test_late_rows_of_the_first_view_over_a_filled_table(filled, rows, kind):
    insert(filled, (1, 5), (2, 15), (3, 6))
    filled.execute(f"CREATE MATERIALIZED VIEW v AS {QUERIES[kind]}")
    assert rows(LATE) == expected("v")
    insert(filled, (4, 4))
    assert [r[2] for r in rows(LATE)] == ["3", "4"]


def test_errors_of_rows_are_told_of_for_views_made_later(db, rows):
    db.execute("CREATE TABLE e (id INT PRIMARY KEY, t INT)")
    query = "SELECT id, 1 / t AS x FROM e"
    db.execute(f"CREATE MATERIALIZED VIEW v1 AS {query}")
    db.execute("INSERT INTO e VALUES (1, 0), (2, 1)")
    db.execute(f"CREATE MATERIALIZED VIEW v2 AS {query}")
    failed = "SELECT view, sqlstate FROM streamsql.view_errors ORDER BY 1"
    assert rows(failed) == [("v1", "22012"), ("v2", "22012")]
    db.execute("UPDATE e SET t = 1 WHERE id = 1")
    assert rows(failed) == []


def test_explain_analyze_counts_rows_without_event_time(filled, rows):
    filled.execute(f"CREATE MATERIALIZED VIEW v AS {QUERIES['rows']}")
    explain = "EXPLAIN ANALYZE MATERIALIZED VIEW v"
    assert "without event time" not in str(rows(explain))
    filled.execute("INSERT INTO a VALUES (1, NULL), (2, '2024-01-01'), (3, NULL)")
    assert "2 rows without event time" in str(rows(explain))
