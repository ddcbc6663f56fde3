"""Sums of floats over frames and in sessions that leave the range: 22003 in a plain query, by
`on_error` in a view, and no difference for VERIFY."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamsql.core.errors import NumericValueOutOfRange
from streamsql.engine.database import Database

SESSION = "FROM SESSION(a PARTITION BY k, t, INTERVAL '10 s') GROUP BY k, window_start, window_end"
ROWS = (
    "(1, 1, 1e308, '2024-01-01 00:00:00'), (2, 1, 1e308, '2024-01-01 00:00:01'), "
    "(3, 2, 5, '2024-01-01 00:00:02')"
)
OVER = {
    "running": ("sum(x) OVER (ORDER BY id)", [(1, 1e308)]),
    "frame": ("sum(x) OVER (ORDER BY id ROWS 1 PRECEDING)", [(1, 1e308), (3, 1e308)]),
    "partition": ("sum(x) OVER (PARTITION BY k)", [(3, 5.0)]),
    "average": ("avg(x) OVER (ORDER BY id)", [(1, 1e308)]),
    "spread": ("stddev(x) OVER (PARTITION BY k)", [(3, None)]),
    "excluded": (
        "sum(x) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW)",
        [(1, None), (2, 1e308), (3, 1e308)],
    ),
}


@pytest.fixture
def db() -> Iterator[Database]:
    with Database() as database:
        database.execute(
            "CREATE TABLE a (id INT, k INT, x DOUBLE PRECISION, t TIMESTAMP, WATERMARK FOR t AS t)"
        )
        yield database


def verified(db: Database, view: str) -> bool:
    return db.execute(f"VERIFY MATERIALIZED VIEW {view}").fetchall() == []


@pytest.mark.parametrize("name", OVER)
def test_over_frames(db: Database, name: str) -> None:
    call, shown = OVER[name]
    query = f"SELECT id, {call} AS s FROM a"
    for on_error in ("skip", "null", "fail"):
        options = f"WITH (on_error = '{on_error}')"
        db.execute(f"CREATE MATERIALIZED VIEW v_{on_error} {options} AS {query}")
    db.execute(f"INSERT INTO a VALUES {ROWS}")
    assert db.execute("SELECT * FROM v_skip ORDER BY id").fetchall() == shown
    known = dict(shown)
    nulls = [(i, known.get(i)) for i in (1, 2, 3)]
    assert db.execute("SELECT * FROM v_null ORDER BY id").fetchall() == nulls
    assert verified(db, "v_skip")
    assert verified(db, "v_null")
    if len(shown) < 3:
        for failing in (query, "SELECT * FROM v_fail", "VERIFY MATERIALIZED VIEW v_fail"):
            with pytest.raises(NumericValueOutOfRange):
                db.execute(failing)
    db.execute("DELETE FROM a WHERE id = 2")  # it recovers by itself
    plain = db.execute(f"{query} ORDER BY id").fetchall()
    for on_error in ("skip", "null", "fail"):
        assert db.execute(f"SELECT * FROM v_{on_error} ORDER BY id").fetchall() == plain
    assert db.execute("SELECT * FROM streamsql.view_errors").fetchall() == []


def test_infinities_in_frames_are_no_overflow(db: Database) -> None:
    query = "SELECT id, sum(x) OVER (ORDER BY id ROWS 1 PRECEDING) AS s FROM a"
    db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    db.execute("INSERT INTO a VALUES (1, 1, 'Infinity', NULL), (2, 1, 1, NULL), (3, 1, 2, NULL)")
    shown = [(1, float("inf")), (2, float("inf")), (3, 3.0)]
    assert db.execute("SELECT * FROM v ORDER BY id").fetchall() == shown
    assert db.execute(f"{query} ORDER BY id").fetchall() == shown
    assert verified(db, "v")


@pytest.mark.parametrize("emit", ["", " EMIT ON WINDOW CLOSE"])
@pytest.mark.parametrize("table", ["", "WITH (append_only = 'true')"])
def test_sessions(db: Database, emit: str, table: str) -> None:
    if table:
        db.execute("DROP TABLE a")
        db.execute(
            "CREATE TABLE a (id INT, k INT, x DOUBLE PRECISION, t TIMESTAMP, WATERMARK FOR t AS t) "
            + table
        )
    query = f"SELECT k, sum(x) AS s {SESSION}"
    for on_error in ("skip", "null", "fail"):
        options = f"WITH (on_error = '{on_error}')"
        db.execute(f"CREATE MATERIALIZED VIEW v_{on_error} {options} AS {query}{emit}")
    db.execute(f"INSERT INTO a VALUES {ROWS}")
    db.execute("INSERT INTO a VALUES (9, 1, NULL, '2024-01-02')")
    later = [] if emit else [(1, None)]
    assert sorted(db.execute("SELECT * FROM v_skip").fetchall(), key=str) == [*later, (2, 5.0)]
    nulls = db.execute("SELECT * FROM v_null").fetchall()
    assert sorted(nulls, key=str) == [(1, None), *later, (2, 5.0)]
    errors = db.execute("SELECT view, sqlstate FROM streamsql.view_errors ORDER BY view").fetchall()
    assert errors == [(f"v_{name}", "22003") for name in ("fail", "null", "skip")]
    assert verified(db, "v_skip")
    assert verified(db, "v_null")
    for failing in ("SELECT * FROM v_fail", "VERIFY MATERIALIZED VIEW v_fail"):
        with pytest.raises(NumericValueOutOfRange):
            db.execute(failing)
    db.execute(f"CREATE MATERIALIZED VIEW made_later AS {query}{emit}")
    assert verified(db, "made_later")
    told = db.execute("SELECT sqlstate FROM streamsql.view_errors WHERE view = 'made_later'")
    assert told.fetchall() == [("22003",)]
