"""Every view equals its query after every tick: against DuckDB, through restore, and undone to nothing."""

from __future__ import annotations

import os
import random
from pathlib import Path

import duckdb
import pytest

import streamsql

from .batch import Shape, bag
from .shapes import SHAPES

DEEP = os.environ.get("STREAMSQL_DEEP") == "1"
TABLES = (
    "CREATE TABLE t (id INT PRIMARY KEY, k INT, g VARCHAR, v INT, ts TIMESTAMP)",
    "CREATE TABLE u (k INT, w INT, s VARCHAR)",
    "CREATE TABLE e (a INT, b INT)",
)


class History:
    """A random history of small changes: NULLs, duplicates, deletes, updates, re-inserts."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.next_id = 1

    def value(self, top: int) -> str:
        return "NULL" if self.random.random() < 0.12 else str(self.random.randint(0, top))

    def text(self) -> str:
        return (
            "NULL"
            if self.random.random() < 0.12
            else f"'{self.random.choice(['a', 'b', 'ab', 'c'])}'"
        )

    def time(self) -> str:
        if self.random.random() < 0.1:
            return "NULL"
        return (
            f"TIMESTAMP '2024-01-01 00:00:00' + INTERVAL '{self.random.randint(-90, 240)} seconds'"
        )

    def insert_t(self) -> str:
        rows = []
        for _ in range(self.random.randint(1, 5)):
            rows.append(
                f"({self.next_id}, {self.value(4)}, {self.text()}, {self.value(9)}, {self.time()})"
            )
            self.next_id += 1
        return "INSERT INTO t VALUES " + ", ".join(rows)

    def insert_u(self) -> str:
        row = f"({self.value(4)}, {self.value(9)}, {self.text()})"
        return "INSERT INTO u VALUES " + ", ".join([row] * self.random.randint(1, 2))

    def insert_e(self) -> str:
        return f"INSERT INTO e VALUES ({self.random.randint(0, 5)}, {self.random.randint(0, 5)})"

    def change(self) -> str:
        pick = self.random.randint(0, 9)
        a, b = self.random.randint(0, 4), self.random.randint(0, 9)
        return [
            f"DELETE FROM t WHERE id % 5 = {a}",
            f"DELETE FROM u WHERE k = {a}",
            f"DELETE FROM e WHERE a = {a}",
            f"UPDATE t SET v = {self.value(9)} WHERE k = {a}",
            f"UPDATE t SET k = {self.value(4)}, g = {self.text()} WHERE v = {b}",
            f"UPDATE u SET w = {self.value(9)} WHERE w = {b}",
            f"UPDATE t SET ts = {self.time()} WHERE id % 3 = {a % 3}",
            f"UPDATE u SET k = {self.value(4)}",
            "UPDATE t SET v = v + 1 WHERE v < 5",
            f"UPDATE e SET b = {a} WHERE a = {(a + 1) % 6}",
        ][pick]

    def step(self) -> str:
        pick = self.random.random()
        if pick < 0.35:
            return self.insert_t()
        if pick < 0.55:
            return self.insert_u()
        if pick < 0.65:
            return self.insert_e()
        return self.change()


class Pair:
    """Our database with all views, and DuckDB with the same tables."""

    def __init__(self, path: str, shapes: tuple[Shape, ...] = SHAPES) -> None:
        self.path = path
        self.shapes = shapes
        self.db = streamsql.connect(path)
        self.oracle = duckdb.connect()
        for statement in TABLES:
            self.db.execute(statement)
            self.oracle.execute(statement.replace(" PRIMARY KEY", ""))

    def create_views(self) -> None:
        for shape in self.shapes:
            self.db.execute(f"CREATE MATERIALIZED VIEW mv_{shape.name} AS {shape.sql}")

    def run(self, statement: str) -> None:
        self.db.execute(statement)
        self.oracle.execute(statement)

    def check(self, when: str) -> None:
        for shape in self.shapes:
            wanted = bag(self.oracle.execute(shape.duckdb).fetchall())
            seen = bag(self.db.execute(f"SELECT * FROM mv_{shape.name}").fetchall())
            assert seen == wanted, (
                f"{shape.name} {when}: extra {seen - wanted}, missing {wanted - seen}"
            )

    def check_ad_hoc(self) -> None:
        for shape in self.shapes:
            wanted = bag(self.oracle.execute(shape.duckdb).fetchall())
            assert bag(self.db.execute(shape.sql).fetchall()) == wanted, (
                f"{shape.name} as a plain query"
            )

    def restart(self) -> None:
        self.db.close()
        self.db = streamsql.connect(self.path)

    def close(self) -> None:
        self.db.close()
        self.oracle.close()


@pytest.mark.parametrize("seed", range(40) if DEEP else range(2))
def test_views_made_first_equal_their_queries_after_every_tick(seed: int) -> None:
    pair = Pair(":memory:")
    pair.create_views()
    pair.check("when empty")
    history = History(seed)
    for _ in range(30 if DEEP else 14):
        statement = history.step()
        pair.run(statement)
        pair.check(f"after {statement} (seed {seed})")
    pair.check_ad_hoc()
    for table in ("t", "u", "e"):
        pair.run(f"DELETE FROM {table}")
        pair.check(f"after emptying {table} (seed {seed})")
    pair.close()


@pytest.mark.parametrize("seed", range(100, 120) if DEEP else range(100, 101))
def test_views_made_after_one_big_load_and_through_restarts(seed: int, tmp_path: Path) -> None:
    pair = Pair(str(tmp_path / "data"))
    history = History(seed)
    pair.db.execute("BEGIN")
    for _ in range(25):
        pair.run(history.step())
    pair.db.execute("COMMIT")
    pair.create_views()
    pair.check(f"after backfill (seed {seed})")
    pair.restart()
    pair.check(f"after a restart (seed {seed})")
    for _ in range(6):
        statement = history.step()
        pair.run(statement)
        pair.check(f"after {statement}, restarted (seed {seed})")
    pair.close()


def test_there_are_enough_shapes() -> None:
    assert len({s.name for s in SHAPES}) == len(SHAPES) >= 60
