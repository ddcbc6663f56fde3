"""Windows over a view that is there already: a view made later begins as one made alone does, and,
where one relation says who came first, as one made before the load."""

from __future__ import annotations

import random

import pytest

from streamsql.engine.database import Database
from tests.event_time.test_windows_over_joins import rows

SEVERAL = {
    "join": "SELECT a.id, a.t, b.id AS o FROM a JOIN b ON a.k = b.k",
    "join of three": "SELECT a.id, a.t, b.id AS o FROM a JOIN b ON a.k = b.k JOIN c ON c.k = a.k",
    "left": "SELECT a.id, a.t, b.id AS o FROM a LEFT JOIN b ON a.id = b.id",
    "asof": "SELECT a.id, a.t, b.id AS o FROM a ASOF LEFT JOIN b ON a.k = b.k AND b.t <= a.t",
    "union all": "SELECT id, t, 0 AS o FROM a UNION ALL SELECT id, t, 1 FROM b",
    "union": "SELECT k AS id, t, 0 AS o FROM a UNION SELECT k, t, 0 FROM b",
    "intersect": "SELECT k AS id, t, 0 AS o FROM a INTERSECT SELECT k, t, 0 FROM b",
    "except": "SELECT k AS id, t, 0 AS o FROM a EXCEPT SELECT k, t, 0 FROM b",
    "except all": "SELECT k AS id, t, 0 AS o FROM a EXCEPT ALL SELECT k, t, 0 FROM b",
    "in": "SELECT id, t, 0 AS o FROM a WHERE k IN (SELECT k FROM b)",
    "interval": "SELECT a.id, a.t, b.id AS o FROM a JOIN b ON a.k = b.k AND b.t BETWEEN a.t - "
                "INTERVAL '5 s' AND a.t + INTERVAL '5 s'",
}  # fmt: skip
JUDGES = ("interval",)  # its own rows, by how far the other table was when they came
ONE = {
    "self": "SELECT x.id, x.t, y.id AS o FROM a x JOIN a y ON x.k = y.k",
    "self and more": "SELECT x.id, x.t, y.id AS o FROM a x JOIN a y ON x.k = y.k AND x.id < y.id",
    "without a watermark": "SELECT a.id, a.t, d.p AS o FROM a JOIN d ON a.k = d.k",
    "known": "SELECT a.id, a.t, 0 AS o FROM a WHERE a.k IN (SELECT k FROM d)",
    "left of known": "SELECT a.id, a.t, d.p AS o FROM a LEFT JOIN d ON a.k = d.k AND d.p > 10",
    "union with itself": "SELECT id, t, 0 AS o FROM a UNION ALL SELECT id, t, 1 FROM a",
}
WINDOWS = (
    "SELECT window_start, count(*) AS n, sum(o) AS o, sum(id) AS i FROM TUMBLE({}, t, "
    "INTERVAL '10 s') GROUP BY window_start, window_end"
)


def database() -> Database:
    db = Database()
    for name in "abc":
        db.execute(
            f"CREATE TABLE {name} (id INT, k INT, t TIMESTAMP, WATERMARK FOR t AS "
            "t - INTERVAL '2 s')"
        )
    db.execute("CREATE TABLE d (k INT, p INT); INSERT INTO d VALUES (1, 10), (2, 20)")
    return db


def load(db: Database, seed: int) -> None:
    draw, at, number = random.Random(seed), dict.fromkeys("abc", 0), 0
    for _ in range(20):
        table, values = draw.choice("aabbc"), []
        for _ in range(draw.randint(1, 4)):
            at[table], number = at[table] + draw.randint(0, 4), number + 1
            second = at[table] - draw.choice([0, 0, 0, draw.randint(0, 30)])
            time = f"TIMESTAMP '2024-01-01' + INTERVAL '{second} s'"
            values.append(f"({number}, {draw.randint(1, 2)}, {time})")
        db.execute(f"INSERT INTO {table} VALUES {', '.join(values)}")


def create(db: Database, name: str, sql: str, emit: str = "") -> None:
    db.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql}{emit}")


@pytest.mark.parametrize("emit", ["", " EMIT ON WINDOW CLOSE"])
@pytest.mark.parametrize("name", [*SEVERAL, *ONE])
def test_windows_over_a_view_begin_as_windows_over_its_query(name: str, emit: str) -> None:
    sql = (SEVERAL | ONE)[name]
    with database() as db:
        create(db, "j", sql)
        create(db, "first", WINDOWS.format("j"), emit)
        load(db, 1)
        before = rows(db, "SELECT * FROM first")
        assert db.execute("VERIFY MATERIALIZED VIEW first").fetchall() == []
    with database() as db:
        load(db, 1)
        create(db, "alone", WINDOWS.format(f"({sql})"), emit)
        alone = rows(db, "SELECT * FROM alone")
    with database() as db:
        create(db, "j", sql)
        load(db, 1)
        create(db, "own", WINDOWS.format(f"({sql})"), emit)
        create(db, "over", WINDOWS.format("j"), emit)
        for view in ("own", "over"):
            if view == "own" or name not in JUDGES:
                assert rows(db, f"SELECT * FROM {view}") == alone, view
            assert db.execute(f"VERIFY MATERIALIZED VIEW {view}").fetchall() == []
    if name in ONE:
        assert alone == before
