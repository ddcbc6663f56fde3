"""Windows over rows that come and go with another relation's (IN, EXISTS, scalar subqueries): who
is late, and what VERIFY replays."""

from __future__ import annotations

import random

import pytest

import streamsql

WINDOWS = (
    "SELECT window_start::time::text AS ws, count(*) AS n FROM TUMBLE(({}), ts, INTERVAL '10 s') "
    "GROUP BY window_start"
)


def row(k: int, v: int, second: int) -> str:
    return f"({k}, {v}, TIMESTAMP '2024-01-01' + INTERVAL '{second} s')"


def shown(query: str, statements: list[str]) -> list[tuple[str, int]]:
    """What a view of windows shows after the statements; it is what VERIFY expects."""
    with streamsql.connect() as db:
        for table in "ab":
            db.execute(f"CREATE TABLE {table} (k INT, v INT, ts TIMESTAMP, WATERMARK FOR ts AS ts)")
        db.execute(f"CREATE MATERIALIZED VIEW m AS {WINDOWS.format(query)}")
        for statement in statements:
            db.execute(statement)
        assert db.execute("VERIFY MATERIALIZED VIEW m").fetchall() == []
        return db.execute("SELECT ws, n FROM m ORDER BY ws").fetchall()


@pytest.mark.parametrize("member", [
    "k IN (SELECT k FROM b)", "EXISTS (SELECT 1 FROM b WHERE b.k = a.k)",
])  # fmt: skip
@pytest.mark.parametrize("ending", ["DELETE FROM b", "UPDATE b SET k = 7"])
def test_a_row_is_late_for_a_membership_by_the_slower_side(member: str, ending: str) -> None:
    """Its own table is past the window, the operator is not: the row counts, and goes again."""
    query = f"SELECT ts, k FROM a WHERE {member}"
    rows = [row(0, 0, 5), row(1, 0, 41), row(0, 0, 36)]
    come = [f"INSERT INTO b VALUES {rows[0]}", *(f"INSERT INTO a VALUES {r}" for r in rows[1:])]
    assert shown(query, come) == [("00:00:30", 1)]
    assert shown(query, [*come, ending]) == []


def test_a_row_that_a_later_one_lets_in_is_as_late_as_that_one() -> None:
    rows = [row(0, 3, 9), row(2, 0, 13), row(1, 3, 12)]
    query = "SELECT ts, k FROM a WHERE v IN (SELECT v FROM a WHERE k = 1)"
    alone = shown(query, [f"INSERT INTO a VALUES {r}" for r in rows])
    assert alone == shown(query, [f"INSERT INTO a VALUES {', '.join(rows)}"])
    assert alone == [("00:00:10", 1)]
    assert shown(query.replace("IN", "NOT IN"), [f"INSERT INTO a VALUES {r}" for r in rows]) == [
        ("00:00:00", 1), ("00:00:10", 1),
    ]  # fmt: skip


def test_verify_knows_what_a_group_without_time_was_between_two_ticks() -> None:
    query = "SELECT ts FROM a WHERE v > (SELECT avg(v) FROM b)"
    rows = f"INSERT INTO a VALUES {row(0, 1, 15)}, {row(0, 2, 34)}"
    assert shown(query, [
        rows, f"INSERT INTO b VALUES {row(0, 0, 45)}", f"INSERT INTO b VALUES {row(0, 2, 33)}"
    ]) == [("00:00:10", 1), ("00:00:30", 1)]  # fmt: skip
    query = "SELECT a.ts, a.k FROM a JOIN (SELECT DISTINCT k FROM b) b ON a.k = b.k"
    come = [("b", row(0, 0, 0)), ("a", row(0, 0, 36)), ("a", row(1, 0, 41)), ("b", row(0, 0, 120))]
    statements = [f"INSERT INTO {table} VALUES {r}" for table, r in come]
    assert shown(query, [*statements, "DELETE FROM b"]) == [("00:00:30", 1)]


LATER = {
    "in": "SELECT ts FROM a WHERE k IN (SELECT k FROM b)",
    "average": "SELECT ts FROM a WHERE k > (SELECT avg(k) FROM b)",
    "average_of_itself": "SELECT ts FROM a WHERE k > (SELECT avg(k) FROM a)",
    "distinct": "SELECT a.ts FROM a JOIN (SELECT DISTINCT k FROM b) b ON a.k = b.k",
}


@pytest.mark.parametrize("name", LATER)
def test_views_made_before_and_after_the_rows_are_verified(name: str) -> None:
    draw = random.Random(name)
    query = WINDOWS.format(LATER[name])
    with streamsql.connect() as db:
        for table in "ab":
            db.execute(f"CREATE TABLE {table} (k INT, ts TIMESTAMP, WATERMARK FOR ts AS ts)")
        db.execute(f"CREATE MATERIALIZED VIEW m AS {query}")
        for i in range(18):
            if i == 12:
                db.execute(f"CREATE MATERIALIZED VIEW later AS {query}")
            table = draw.choice("aab")
            at = (max(0, 9 * i + draw.randint(-60, 9)) for _ in range(3))
            rows = (f"({draw.randint(1, 4)}, TIMESTAMP '2024-01-01' + {s} * INTERVAL '1 s')"
                    for s in at)  # fmt: skip
            db.execute(f"INSERT INTO {table} VALUES {', '.join(rows)}")
            if draw.random() < 0.2:
                db.execute(f"DELETE FROM {table} WHERE k = {draw.randint(1, 4)}")
        for view in ("m", "later"):
            assert db.execute(f"VERIFY MATERIALIZED VIEW {view}").fetchall() == []
