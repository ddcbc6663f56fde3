"""Draws the steps of random lives: what is written, which views are made, how time passes."""

from __future__ import annotations

import datetime
import random

from tests.plan.generator import Generator

from ..oracle.batch import Shape, hop, session, tumble
from .stages import aggregates, joins, ordering
from .world import START, Step, random_time

TABLES: dict[str, tuple[list[str], list[str]]] = {
    "t": (["id", "k", "v"], ["g"]),
    "u": (["id", "k", "w"], ["s"]),
    "p": (["n", "k", "w"], []),
    "e": (["a", "b"], []),
}
SHAPES: tuple[Shape, ...] = (
    *joins.STAGE.shapes,
    *aggregates.STAGE.shapes,
    *ordering.STAGE_TOP.shapes,
    *ordering.STAGE_OVER.shapes,
)
N = "count(*) AS n, sum(v) AS s"
W = "window_start, window_end"
CLOSE = "EMIT ON WINDOW CLOSE"
TIMED: tuple[tuple[str, str], ...] = (
    *(
        (f"SELECT {by}, {N} FROM {ours} GROUP BY {by}{emit}", f"SELECT {by}, {N} FROM {theirs} GROUP BY {by}{having}")
        for ours, theirs, by in (
            ("TUMBLE(c, ts, INTERVAL '20 seconds')", tumble(20, "c"), f"{W}, k"),
            ("HOP(c, ts, INTERVAL '10 seconds', INTERVAL '30 seconds')", hop(10, 30, "c"), W),
            ("SESSION(c PARTITION BY k, ts, INTERVAL '10 seconds')", session(10, table="c"), f"{W}, k"),
        )
        for emit, having in (("", ""), (f" {CLOSE}", " HAVING window_end <= {w}"))
    ),
    ("SELECT id, k FROM t WHERE ts > now()::timestamp - INTERVAL '40 seconds'", "SELECT id, k FROM t WHERE ts > {now} - INTERVAL '40 seconds'"),
    ("SELECT k, count(*) AS n FROM u WHERE ts <= now()::timestamp GROUP BY k", "SELECT k, count(*) AS n FROM u WHERE ts <= {now} GROUP BY k"),
    (
        "SELECT t.id, u.id AS j FROM t JOIN u ON t.k = u.k WHERE t.ts BETWEEN now()::timestamp - INTERVAL '1 minute' AND now()::timestamp",
        "SELECT t.id, u.id AS j FROM t JOIN u ON t.k = u.k WHERE t.ts BETWEEN {now} - INTERVAL '1 minute' AND {now}",
    ),
    ("SELECT id, lag(v) OVER (PARTITION BY k ORDER BY ts, id) AS p FROM c", "SELECT id, lag(v) OVER (PARTITION BY k ORDER BY ts, id) AS p FROM c"),
    (
        "SELECT a.id, b.id AS j FROM c a JOIN c b ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL '15 seconds' AND a.ts",
        "SELECT a.id, b.id AS j FROM c a JOIN c b ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL '15 seconds' AND a.ts",
    ),
)  # fmt: skip
VIEWS_MAX = 10


class Life:
    """A source of steps. What it draws depends on the seed alone."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.names: list[str] = []
        self.made = 0
        self.ids = 0
        self.now = self.watermark = START
        self.columns: dict[str, str] = {}

    def steps(self, count: int) -> list[Step]:
        return [self.step() for _ in range(count)]

    def step(self) -> Step:
        choice = self.draw.random()
        if choice < 0.10 or not self.names:
            return self.view()
        if choice < 0.15 or len(self.names) > VIEWS_MAX:
            return self.drop()
        if choice < 0.30:
            statements = tuple(self.write() for _ in range(self.draw.randint(1, 4)))
            end = "ROLLBACK" if self.draw.random() < 0.25 else "COMMIT"
            return Step("transaction", statements, end)
        if choice < 0.315:
            return Step(self.draw.choice(["close", "crash"]))
        if choice < 0.36:
            self.now += datetime.timedelta(seconds=self.draw.randint(1, 30))
            return Step("alone", (f"ADVANCE CLOCK TO '{self.now}+00'",), now=self.now)
        if choice < 0.40:
            self.watermark += datetime.timedelta(seconds=self.draw.randint(1, 30))
            text = f"ADVANCE WATERMARK FOR c TO '{self.watermark}'"
            return Step("alone", (text,), watermark=self.watermark)
        return Step("write", (self.write(),))

    # views --------------------------------------------------------------------------------------
    def view(self) -> Step:
        self.made += 1
        name = f"v{self.made}"
        choice = self.draw.random()
        if choice < 0.45:
            query = Generator(self.draw.randrange(10**9), TABLES).query()
            pair = (query, query)
        elif choice < 0.8:
            shape = self.draw.choice(SHAPES)
            pair = (shape.sql, shape.duckdb)
        else:
            pair = self.draw.choice(TIMED)
        self.names.append(name)
        return Step("view", pair, name=name)

    def drop(self) -> Step:
        name = self.names.pop(self.draw.randrange(len(self.names)))
        return Step("drop", name=name)

    # rows ---------------------------------------------------------------------------------------
    def number(self, top: int) -> str:
        return "NULL" if self.draw.random() < 0.12 else str(self.draw.randint(0, top))

    def word(self) -> str:
        words = ("'a'", "'b'", "'ab'", "'x'", "''", "NULL")
        return self.draw.choice(words)

    def near(self) -> str:
        if self.draw.random() < 0.1:
            return "NULL"
        return random_time(self.draw, self.now - datetime.timedelta(seconds=60), 120)

    def ahead(self) -> str:
        """A time after the watermark: on time for every window."""
        return random_time(self.draw, self.watermark, 45)

    def row(self, table: str) -> str:
        number, word = self.number, self.word
        if table == "t":
            decimals = f"{self.draw.randint(-9, 20)}.{self.draw.randint(10, 99)}"
            self.ids += 1
            identity = self.ids if self.draw.random() < 0.9 else self.draw.randint(1, self.ids)
            real = self.draw.choice(["NULL", "0.5", "-1.25", "3", "2.125"])
            flag = self.draw.choice(["true", "false", "NULL"])
            return f"({identity}, {number(5)}, {word()}, {number(9)}, {decimals}, {real}, {flag}, {self.near()})"
        if table == "u":
            self.ids += 1
            return f"({self.ids}, {number(6)}, {number(9)}, {word()}, {self.near()})"
        if table == "p":
            return f"({self.draw.randint(0, 9)}, {number(4)}, {number(6)})"
        if table == "e":
            return f"({self.draw.randint(0, 6)}, {self.draw.randint(0, 6)})"
        self.ids += 1
        return f"({self.ids}, {number(2)}, {number(9)}, {self.ahead()})"

    def write(self) -> str:
        choice = self.draw.random()
        table = self.draw.choice(["t", "t", "t", "u", "u", "p", "p", "e", "c"])
        if choice < 0.45:
            rows = [self.row(table) for _ in range(self.draw.randint(1, 3))]
            if table == "p" and self.draw.random() < 0.4:
                rows *= 2
            return f"INSERT INTO {table} VALUES {', '.join(rows)}"
        if choice < 0.72:
            return self.delete(table)
        return self.update(table)

    def delete(self, table: str) -> str:
        a, m = self.draw.randint(0, 6), self.draw.randint(2, 5)
        if table == "c":  # changes of closed windows would be late
            return f"DELETE FROM c WHERE id % {m} = 0 AND ts > TIMESTAMP '{self.watermark}' + INTERVAL '30 seconds'"
        if self.draw.random() < 0.03:
            return f"DELETE FROM {table}"
        key = {"t": "id", "u": "id", "p": "n", "e": "a"}[table]
        column = {"t": "k", "u": "w", "p": "k", "e": "b"}[table]
        if self.draw.random() < 0.5:
            return f"DELETE FROM {table} WHERE {key} % {m} = {a % m}"
        return f"DELETE FROM {table} WHERE {column} = {a}"

    def update(self, table: str) -> str:
        number, word = self.number, self.word
        a, m = self.draw.randint(0, 6), self.draw.randint(2, 5)
        choices = {
            "t": (
                f"k = {number(5)} WHERE v = {a}", f"v = v + 1 WHERE k < {a}", f"g = {word()} WHERE id % {m} = 0",
                f"ts = {self.near()} WHERE id % {m} = 1", f"b = NOT b, v = {number(9)} WHERE id % {m} = 0",
                f"id = id + 10000 WHERE id < {a}", f"x = x * 2 WHERE x < {a}", f"d = {a} WHERE k = {a}",
            ),
            "u": (
                f"k = {number(6)} WHERE w = {a}", f"w = {number(9)} WHERE k = {a}", f"s = {word()}",
                f"k = k + 1 WHERE id % {m} = 0", f"ts = {self.near()} WHERE k = {a}", "w = w",
            ),
            "p": (f"k = {number(4)} WHERE w = {a}", f"w = w + 1 WHERE n < {a}", f"n = {a} WHERE k = {a}"),
            "e": (f"b = {a} WHERE a = {m}", f"a = b, b = a WHERE a < {a}"),
            "c": (f"v = v + 1 WHERE ts > TIMESTAMP '{self.watermark}' + INTERVAL '30 seconds'",),
        }  # fmt: skip
        return f"UPDATE {table} SET {self.draw.choice(choices[table])}"
