"""Joins of rows from windows that close at different times: nothing of an open one is late."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from streamsql.engine.database import Database

COUNTS = (
    "SELECT k, window_start ws, window_end we, count(*) c "
    "FROM TUMBLE(a, t, INTERVAL '10 seconds') GROUP BY 1, 2, 3"
)
BEFORE = "x.k = y.k AND y.ws = x.ws - INTERVAL '10 seconds'"
QUERIES = {
    "before": f"SELECT x.k, x.ws, x.c, y.c p FROM g x JOIN g y ON {BEFORE}",
    "left": f"SELECT x.k, x.ws, x.c, y.c p FROM g x LEFT JOIN g y ON {BEFORE}",
    "full": f"SELECT x.k, x.ws, x.c, y.k l, y.ws w, y.c p FROM g x FULL JOIN g y ON {BEFORE}",
    "after": "SELECT x.k, x.ws, x.c, y.c p FROM g x LEFT JOIN g y "
    "ON x.k = y.k AND y.ws = x.ws + INTERVAL '10 seconds'",
    "same key": "SELECT x.k, x.ws, y.ws w, x.c, y.c p FROM g x JOIN g y ON x.k = y.k",
    "same window": "SELECT x.k, x.ws, x.c, y.c p FROM g x JOIN g y ON x.k = y.k AND x.ws = y.ws",
    "end meets start": "SELECT x.k, x.ws, y.c p FROM g x JOIN g y ON x.k = y.k AND x.ws = y.we",
    "band": "SELECT x.ws, x.c, y.ws w, y.c p FROM g x JOIN g y "
    "ON y.ws BETWEEN x.ws - INTERVAL '30 s' AND x.ws - INTERVAL '10 s' AND x.k < y.k",
    "band and key": "SELECT x.k, x.we, x.c, y.we w, y.c p FROM g x JOIN g y ON x.k = y.k "
    "AND y.we BETWEEN x.we - INTERVAL '30 s' AND x.we - INTERVAL '10 s'",
    "exists": f"SELECT k, ws, c FROM g x WHERE EXISTS (SELECT 1 FROM g y WHERE {BEFORE})",
    "not exists after": "SELECT k, ws, c FROM g x WHERE NOT EXISTS (SELECT 1 FROM g y "
    "WHERE x.k = y.k AND y.ws = x.ws + INTERVAL '10 seconds' AND y.c > 1)",
    "scalar": f"SELECT k, ws, c, (SELECT y.c FROM g y WHERE {BEFORE}) p FROM g x",
}


@pytest.fixture
def db() -> Iterator[Database]:
    with Database() as database:
        database.execute("CREATE TABLE a (id INT, k INT, t TIMESTAMP, WATERMARK FOR t AS t)")
        database.execute(f"CREATE MATERIALIZED VIEW g AS {COUNTS}")
        yield database


def rows(db: Database, query: str) -> list[str]:
    return sorted(map(repr, db.execute(query).fetchall()))


def test_joins_of_windows_equal_their_queries_where_nothing_is_late(db: Database) -> None:
    names = {name: f"v{i}" for i, name in enumerate(QUERIES)}
    for name, query in QUERIES.items():
        db.execute(f"CREATE MATERIALIZED VIEW {names[name]} AS {query}")
    draw, second, number = random.Random(1), 0, 0
    for _ in range(30):
        values = []
        for _ in range(25):
            second, number = second + draw.randint(0, 3), number + 1
            time = f"TIMESTAMP '2024-01-01' + INTERVAL '{second} s'"
            values.append(f"({number}, {draw.randint(0, 25)}, {time})")
        db.execute(f"INSERT INTO a VALUES {', '.join(values)}")
    for name, query in QUERIES.items():
        assert rows(db, f"SELECT * FROM {names[name]}") == rows(db, query), name
    assert db.execute("SELECT * FROM streamsql.late_rows").fetchall() == []


@pytest.mark.parametrize("emit", ["", " EMIT ON WINDOW CLOSE"])
def test_a_window_and_the_one_before_it(db: Database, emit: str) -> None:
    db.execute(
        f"CREATE MATERIALIZED VIEW v AS SELECT x.c, y.c p FROM g x LEFT JOIN g y ON {BEFORE}{emit}"
    )
    for second in (1, 12, 14, 16, 25, 27, 38, 60):
        time = f"TIMESTAMP '2024-01-01' + INTERVAL '{second} s'"
        db.execute(f"INSERT INTO a VALUES ({second}, 1, {time})")
    open_window = [] if emit else [(1, None)]
    shown = [(1, None), (3, 1), (2, 3), (1, 2), *open_window]
    assert rows(db, "SELECT * FROM v") == sorted(map(repr, shown))
    assert db.execute("VERIFY MATERIALIZED VIEW v").fetchall() == []


def test_a_key_that_goes_in_the_tick_of_new_rows_leaves_closed_windows_alone(
    db: Database,
) -> None:
    """A change of both sides in one tick is judged as each of them alone is."""
    db.execute("CREATE TABLE u (k INT)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, ws, c FROM g WHERE k IN (SELECT k FROM u)")
    at = "TIMESTAMP '2024-01-01' + INTERVAL '{} s'".format
    db.execute(f"INSERT INTO a VALUES (1, 3, {at(1)}), (2, 4, {at(25)})")
    db.execute("INSERT INTO u VALUES (3), (4)")  # too late for the window of 3
    db.execute(f"BEGIN; DELETE FROM u; INSERT INTO a VALUES (3, 4, {at(26)}); COMMIT")
    assert rows(db, "SELECT * FROM v") == []
    db.execute(
        f"BEGIN; INSERT INTO u VALUES (3), (4); INSERT INTO a VALUES (4, 4, {at(27)}); COMMIT"
    )
    assert rows(db, "SELECT k, c FROM v") == ["(4, 3)"]
    assert db.execute("VERIFY MATERIALIZED VIEW v").fetchall() == []
