"""Joins that judge their rows by both watermarks: what was late stays late when they are made over
filled tables, at once or beside the engine, and after a restart."""

from __future__ import annotations

import random

import pytest

from streamsql.engine import jobs, side_circuit
from streamsql.engine.database import Database

NEAR = "a.k = b.k AND b.t BETWEEN a.t - INTERVAL '5 s' AND a.t + INTERVAL '5 s'"
JOINS = {
    "interval": f"SELECT a.id, b.id AS o FROM a JOIN b ON {NEAR}",
    "interval, on close": f"SELECT a.id, b.id AS o, a.t, b.t AS u FROM a JOIN b ON {NEAR} "
    "EMIT ON WINDOW CLOSE",
    "left": f"SELECT a.id, b.id AS o FROM a LEFT JOIN b ON {NEAR}",
    "full": f"SELECT a.id, b.id AS o FROM a FULL JOIN b ON {NEAR}",
    "not exists": f"SELECT a.id FROM a WHERE NOT EXISTS (SELECT FROM b WHERE {NEAR})",
    "as of, on close": "SELECT a.id, a.t, b.id AS o FROM a ASOF LEFT JOIN b ON a.k = b.k AND "
    "b.t <= a.t EMIT ON WINDOW CLOSE",
    "temporal": "SELECT a.id, a.t, r.p FROM a LEFT JOIN r FOR SYSTEM_TIME AS OF a.t ON a.k = r.k",
}


def tables(db: Database) -> None:
    for name in "ab":
        db.execute(f"CREATE TABLE {name} (id INT, k INT, t TIMESTAMP, WATERMARK FOR t AS t)")
    db.execute("CREATE TABLE r (k INT PRIMARY KEY, p INT, t TIMESTAMP, WATERMARK FOR t AS t)")


def time(second: int) -> str:
    return f"TIMESTAMP '2024-01-01' + INTERVAL '{second} s'"


def load(db: Database, seed: int) -> None:
    """Rows in turn, late ones after both tables have gone on."""
    draw, now = random.Random(seed), 0
    for number in range(60):
        now += 2
        late = draw.choice([0, 0, 30])
        for name in "ab":
            if not late:
                db.execute(f"INSERT INTO {name} VALUES ({number}, 0, {time(now)})")
            row = f"({number}, {draw.randint(1, 3)}, {time(now - late)})"
            db.execute(f"INSERT INTO {name} VALUES {row}")
        db.execute(
            f"INSERT INTO r VALUES ({number % 3 + 1}, {number}, {time(now - late)}) ON CONFLICT "
            "(k) DO UPDATE SET p = excluded.p, t = excluded.t"
        )


def rows(db: Database, view: str) -> list[str]:
    return sorted(str(tuple(row)) for row in db.execute(f"SELECT * FROM {view}").fetchall())


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("name", JOINS)
def test_what_was_late_stays_late(name: str, beside: bool, monkeypatch) -> None:
    if beside:
        monkeypatch.setattr(jobs, "JOB_ROWS", 1)
        monkeypatch.setattr(side_circuit, "SLICE_ROWS", 50)
    with Database() as db:
        tables(db)
        if name == "temporal":  # its versions are those that are there now
            load(db, 1)
            db.execute(f"CREATE MATERIALIZED VIEW after AS {JOINS[name]}")
            assert db.execute("VERIFY MATERIALIZED VIEW after").fetchall() == []
            return
        db.execute(f"CREATE MATERIALIZED VIEW before AS {JOINS[name]}")
        load(db, 1)
        db.execute(f"CREATE MATERIALIZED VIEW after AS {JOINS[name]}")
        assert db.execute("SELECT count(*) FROM streamsql.late_rows").fetchall()[0][0] > 0
        assert rows(db, "after") == rows(db, "before") != []
        for view in ("before", "after"):
            assert db.execute(f"VERIFY MATERIALIZED VIEW {view}").fetchall() == []


def test_a_late_row_of_the_table_that_is_ahead_is_on_time_while_the_other_lags() -> None:
    with Database() as db:
        tables(db)
        db.execute(f"CREATE MATERIALIZED VIEW v AS {JOINS['left']}")
        db.execute(f"INSERT INTO b VALUES (1, 1, {time(1)})")
        db.execute(f"INSERT INTO a VALUES (1, 1, {time(15)})")
        db.execute(f"INSERT INTO a VALUES (2, 1, {time(2)})")
        assert rows(db, "v") == ["(1, None)", "(2, 1)"]
        db.execute(f"INSERT INTO b VALUES (2, 1, {time(30)})")
        db.execute(f"INSERT INTO a VALUES (3, 1, {time(2)})")
        assert rows(db, "v") == ["(1, None)", "(2, 1)"]
        assert db.execute("SELECT source FROM streamsql.late_rows").fetchall() == [("a",)]
        assert db.execute("VERIFY MATERIALIZED VIEW v").fetchall() == []


def test_a_table_that_stands_still_keeps_the_rows_of_the_other_until_it_is_idle() -> None:
    with Database() as db:
        tables(db)
        db.execute(f"CREATE MATERIALIZED VIEW v AS {JOINS['interval']}")
        db.execute(f"INSERT INTO b VALUES (1, 1, {time(0)})")
        for second in range(0, 100, 10):
            db.execute(f"INSERT INTO a VALUES ({second}, 1, {time(second)})")
        (join,) = [n.operator for n in db.engine.circuit if n.label.startswith("interval-join")]
        assert join.state_rows() == 11
        db.execute("ADVANCE WATERMARK FOR b TO '2024-01-01 00:01:30'")
        db.execute(f"INSERT INTO a VALUES (100, 1, {time(100)})")
        assert join.state_rows() < 6
