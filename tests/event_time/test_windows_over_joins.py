"""Windows, joins and OVER above joins by a span of time: a pair comes late by the span, and is not
late for that. Rows come in order here, so that every view is its query, and nothing is late."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from streamsql.engine.database import Database
from tests.event_time.test_windows_apart import COUNTS, ENDLESS
from tests.event_time.test_windows_apart import shapes as shapes_apart
from tests.state.faulty_filesystem import MemoryFileSystem

AB = (
    "SELECT a.id, a.k, a.t AS at, b.id AS bid, b.t AS bt FROM a JOIN b ON a.k = b.k "
    "AND b.t BETWEEN a.t - INTERVAL '3 s' AND a.t + INTERVAL '20 s'"
)
ABC = (
    f"SELECT x.id, x.k, x.at, x.bt, c.id AS cid, c.t AS ct FROM ({AB}) x JOIN c ON x.k = c.k "
    "AND c.t BETWEEN x.bt AND x.bt + INTERVAL '15 s'"
)
NO_KEY = (
    "SELECT a.id, a.k, a.t AS at, b.id AS bid, b.t AS bt FROM a JOIN b ON "
    "b.t BETWEEN a.t - INTERVAL '3 s' AND a.t + INTERVAL '12 s'"
)
LEFT = AB.replace("a JOIN b", "a LEFT JOIN b")
EXISTS = (
    "SELECT a.id, a.k, a.t AS at FROM a WHERE EXISTS (SELECT 1 FROM b WHERE a.k = b.k "
    "AND b.t BETWEEN a.t - INTERVAL '3 s' AND a.t + INTERVAL '20 s')"
)
UNION = f"SELECT at FROM ({AB}) x UNION ALL SELECT t FROM c"


def windows(join: str, column: str) -> str:
    return (
        f"SELECT window_start AS ws, count(*) AS n FROM TUMBLE(({join}), {column}, "
        "INTERVAL '10 s') GROUP BY window_start, window_end"
    )


GROUPED = {
    "by left": windows(AB, "at"),
    "by right": windows(AB, "bt"),
    "three, by first": windows(ABC, "at"),
    "three, by second": windows(ABC, "bt"),
    "three, by third": windows(ABC, "ct"),
    "without a key": windows(NO_KEY, "at"),
    "without a key, by right": windows(NO_KEY, "bt"),
    "left": windows(LEFT, "at"),
    "left without a key": windows(NO_KEY.replace("a JOIN b", "a LEFT JOIN b"), "at"),
    "not exists": windows(EXISTS.replace("EXISTS", "NOT EXISTS"), "at"),
    "exists": windows(EXISTS, "at"),
    "union": windows(UNION, "at"),
    "hop": f"SELECT window_start AS ws, count(*) AS n FROM HOP(({AB}), at, INTERVAL '5 s', "
           "INTERVAL '10 s') GROUP BY window_start, window_end",
    "session": f"SELECT k, window_start AS ws, window_end AS we, count(*) AS n FROM SESSION(({AB}) "
               "PARTITION BY k, at, INTERVAL '2 s') GROUP BY k, window_start, window_end",
}  # fmt: skip
PLAIN = {
    "pairs": AB,
    "left times": f"SELECT DISTINCT id, at FROM ({AB}) x",
    "right times": f"SELECT DISTINCT bid, bt FROM ({AB}) x",
    "three": ABC,
    "three, one time": f"SELECT DISTINCT id, at FROM ({ABC}) x",
    "no key": NO_KEY,
    "left": LEFT,
    "left of no key": NO_KEY.replace("a JOIN b", "a LEFT JOIN b"),
    "right of no key": NO_KEY.replace("a JOIN b", "a RIGHT JOIN b"),
    "full of no key": NO_KEY.replace("a JOIN b", "a FULL JOIN b"),
    "left of pairs": f"SELECT x.id, x.bid, x.at, c.id AS cid FROM ({AB}) x LEFT JOIN c ON "
                     "x.k = c.k AND c.t BETWEEN x.at AND x.at + INTERVAL '15 s'",
    "not exists": EXISTS.replace("EXISTS", "NOT EXISTS"),
    "exists": EXISTS,
    "over": f"SELECT at, bt, count(*) OVER (ORDER BY at) AS n FROM ({AB}) x",
    "over right": f"SELECT at, bt, count(*) OVER (PARTITION BY k ORDER BY bt) AS n FROM ({AB}) x",
    "over three": f"SELECT at, bt, count(*) OVER (ORDER BY at) AS n FROM ({ABC}) x",
    "over ahead": "SELECT at, count(*) OVER (ORDER BY at RANGE BETWEEN CURRENT ROW AND INTERVAL "
                  f"'5 s' FOLLOWING) AS n FROM (SELECT DISTINCT at FROM ({AB}) x) y",
    "asof": f"SELECT x.id, x.bid, x.at, c.id AS cid FROM ({AB}) x ASOF LEFT JOIN c ON x.k = c.k "
            "AND c.t <= x.at",
    "asof to pairs": f"SELECT c.id, c.t, x.at FROM c ASOF LEFT JOIN ({AB}) x ON x.k = c.k "
                     "AND x.at <= c.t",
}  # fmt: skip


@pytest.fixture
def db() -> Iterator[Database]:
    with Database() as database:
        for name in "abc":
            database.execute(
                f"CREATE TABLE {name} (id INT, k INT, t TIMESTAMP, WATERMARK FOR t AS t)"
            )
        yield database


def rows(db: Database, query: str) -> list[str]:
    return sorted(map(repr, db.execute(query).fetchall()))


def live(db: Database, seed: int) -> None:
    """Rows of the three tables, each in the order of its times; one may be ahead of the others."""
    draw, number = random.Random(seed), 0
    at = {"a": 0, "b": 0, "c": 0}
    for _ in range(30):
        table = draw.choice("abc")
        values = []
        for _ in range(draw.randint(1, 5)):
            at[table], number = at[table] + draw.randint(0, 6), number + 1
            time = f"TIMESTAMP '2024-01-01' + INTERVAL '{at[table]} s'"
            values.append(f"({number}, {draw.randint(1, 3)}, {time})")
        db.execute(f"INSERT INTO {table} VALUES {', '.join(values)}")
    for name in "abc":  # all that came is final
        db.execute(f"ADVANCE WATERMARK FOR {name} TO '2024-01-02'")


@pytest.mark.parametrize("seed", [0])
def test_views_over_joins_by_a_span_are_their_queries(db: Database, seed: int) -> None:
    names = {}
    for i, (name, query) in enumerate([*GROUPED.items(), *PLAIN.items()]):
        for emit in ("", " EMIT ON WINDOW CLOSE"):
            view = f"v{i}{'f' if emit else ''}"
            names[f"{name}{emit}"] = view, query
            db.execute(f"CREATE MATERIALIZED VIEW {view} AS {query}{emit}")
            if emit:
                db.execute(f"CREATE SUBSCRIPTION s{view} FROM {view} WITH (retention = '1 day')")
    live(db, seed)
    wrong = [
        n for n, (view, q) in names.items() if rows(db, f"SELECT * FROM {view}") != rows(db, q)
    ]
    assert not wrong
    assert db.execute("SELECT * FROM streamsql.late_rows").fetchall() == []
    for name, (view, _) in names.items():
        if "CLOSE" in name:
            db.execute(f"DECLARE c{view} SUBSCRIPTION CURSOR FOR s{view} SINCE begin()")
            given = db.execute(f"FETCH 5000 FROM c{view}").fetchall()
            assert all(weight == 1 for _, weight, *_ in given), name


def opened(files: MemoryFileSystem, delay: int) -> Database:
    db = Database("data", files=files)
    if not db.engine.tables:
        for name in "abc":
            db.execute(
                f"CREATE TABLE {name} (id INT PRIMARY KEY, k INT, t TIMESTAMP, "
                f"WATERMARK FOR t AS t - INTERVAL '{delay} s')"
            )
        db.execute(f"CREATE MATERIALIZED VIEW g AS {COUNTS}")
    return db


@pytest.mark.parametrize("seed", range(2))
def test_late_rows_and_deletions_take_nothing_back_and_a_restart_changes_nothing(seed: int) -> None:
    draw, files = random.Random(seed), MemoryFileSystem()
    known = {n: sql for n, sql in shapes_apart().items() if n not in ENDLESS}
    chosen = [*draw.sample(sorted(known.items()), 8), *draw.sample(sorted(PLAIN.items()), 6)]
    db = opened(files, draw.choice([0, 3]))
    for i, (_, sql) in enumerate(chosen):
        db.execute(f"CREATE MATERIALIZED VIEW v{i} AS {sql} EMIT ON WINDOW CLOSE")
        db.execute(f"CREATE SUBSCRIPTION s{i} FROM v{i} WITH (retention = '1 day')")
    at, number, there = dict.fromkeys("abc", 0), 0, {name: [] for name in "abc"}
    for step in range(40):
        table = draw.choice("abc")
        if there[table] and draw.random() < 0.2:
            gone = there[table].pop(
                draw.randrange(max(0, len(there[table]) - 12), len(there[table]))
            )
            db.execute(f"DELETE FROM {table} WHERE id = {gone}")
            continue
        values = []
        for _ in range(draw.randint(1, 5)):
            at[table], number = at[table] + draw.randint(0, 6), number + 1
            second = at[table] - (draw.randint(0, 25) if draw.random() < 0.2 else 0)
            there[table].append(number)
            time = f"TIMESTAMP '2024-01-01' + INTERVAL '{second} s'"
            values.append(f"({number}, {draw.randint(1, 3)}, {time})")
        db.execute(f"INSERT INTO {table} VALUES {', '.join(values)}")
        if step == 20:
            before = [rows(db, f"SELECT * FROM v{i}") for i in range(len(chosen))]
            db.close()
            db = opened(files, 0)
            assert [rows(db, f"SELECT * FROM v{i}") for i in range(len(chosen))] == before
    for name in "abc":
        db.execute(f"ADVANCE WATERMARK FOR {name} TO '2024-01-02'")
    for i, (name, _) in enumerate(chosen):
        shown = rows(db, f"SELECT * FROM v{i}")
        db.execute(f"DECLARE c{i} SUBSCRIPTION CURSOR FOR s{i} SINCE begin()")
        given = db.execute(f"FETCH 5000 FROM c{i}").fetchall()
        assert all(weight > 0 for _, weight, *_ in given), name
        assert sum(weight for _, weight, *_ in given) == len(shown), name
    assert db.execute("SELECT * FROM streamsql.jobs WHERE state = 'failed'").fetchall() == []
    db.close()
