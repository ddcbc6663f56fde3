"""VERIFY of views that depend on the order in which their inputs moved, or on the clock: random
lives with late rows, deletes, idle inputs and restarts end without a difference, and a row that is
damaged is found."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

from streamsql.core.delta import Delta
from streamsql.engine.database import Database
from tests.engine.test_recovery import abandon
from tests.state.faulty_filesystem import MemoryFileSystem

DEEP = os.environ.get("STREAMSQL_DEEP") == "1"
LIVES, STEPS = (150, 120) if DEEP else (4, 60)
WINDOW = "INTERVAL '10 s'"
KNOWN = "k IN (SELECT k FROM u)"
BOTH = "(SELECT id, k, t FROM a UNION ALL SELECT id, k, t FROM b)"
VIEWS = {
    "window_above_lookup": "SELECT window_start, n, count(*) c FROM TUMBLE((SELECT a.t, u.n FROM a "
    f"JOIN u USING (k)), t, {WINDOW}) GROUP BY 1, 2",
    "window_above_left_lookup": "SELECT window_start, n, count(*) c FROM HOP((SELECT a.t, u.n FROM "
    f"a LEFT JOIN u USING (k)), t, {WINDOW}, INTERVAL '20 s') GROUP BY 1, 2",
    "filtered": f"SELECT window_start, count(*) c FROM TUMBLE(a, t, {WINDOW}) WHERE {KNOWN} "
    "GROUP BY 1",
    "filtered_on_close": f"SELECT window_start, count(*) c FROM TUMBLE(a, t, {WINDOW}) WHERE "
    f"{KNOWN} GROUP BY 1 EMIT ON WINDOW CLOSE",
    "filtered_below": f"SELECT window_end, k, count(*) c FROM TUMBLE((SELECT * FROM a WHERE {KNOWN}"
    f"), t, {WINDOW}) GROUP BY 1, 2 EMIT ON WINDOW CLOSE",
    "filtered_above": f"SELECT * FROM (SELECT window_start, k, count(*) c FROM TUMBLE(a, t, {WINDOW}"
    f") GROUP BY 1, 2) q WHERE {KNOWN}",
    "unknown": f"SELECT window_start, count(*) c FROM TUMBLE(a, t, {WINDOW}) WHERE NOT EXISTS "
    "(SELECT 1 FROM u WHERE u.k = a.k) GROUP BY 1",
    "scalar": "SELECT window_start, m, count(*) c FROM TUMBLE((SELECT t, (SELECT max(n) FROM u) m "
    f"FROM a), t, {WINDOW}) GROUP BY 1, 2",
    "united": f"SELECT window_start, count(*) c FROM TUMBLE({BOTH}, t, {WINDOW}) GROUP BY 1",
    "united_on_close": f"SELECT window_start, k, sum(id) s FROM TUMBLE({BOTH}, t, {WINDOW}) "
    "GROUP BY 1, 2 EMIT ON WINDOW CLOSE",
    "joined": "SELECT window_start, count(*) c FROM TUMBLE((SELECT a.t, b.id FROM a JOIN b USING "
    f"(k)), t, {WINDOW}) GROUP BY 1",
    "near": "SELECT a.id, b.id j FROM a JOIN b ON a.k = b.k AND a.t BETWEEN b.t AND b.t + "
    "INTERVAL '5 s'",
    "near_left_on_close": "SELECT a.id, a.t, b.id j FROM a LEFT JOIN b ON a.k = b.k AND a.t BETWEEN "
    "b.t AND b.t + INTERVAL '5 s' EMIT ON WINDOW CLOSE",
    "windows_joined": f"SELECT x.window_end, x.id, y.id j FROM TUMBLE(a, t, {WINDOW}) x LEFT JOIN "
    f"TUMBLE(b, t, {WINDOW}) y ON x.k = y.k AND x.window_start = y.window_start AND x.window_end = "
    "y.window_end",
    "sessions": "SELECT k, window_start, window_end, count(*) c FROM SESSION(a PARTITION BY k, t, "
    "INTERVAL '4 s') GROUP BY 1, 2, 3",
    "sessions_on_close": "SELECT k, window_start, window_end, sum(id) c FROM SESSION(a PARTITION BY "
    "k, t, INTERVAL '4 s') GROUP BY 1, 2, 3 EMIT ON WINDOW CLOSE",
    "looked_up": "SELECT a.id, u.n FROM a LEFT JOIN u FOR SYSTEM_TIME AS OF PROCTIME() ON a.k = u.k",
    "looked_up_sums": "SELECT u.n, sum(a.id) s FROM a JOIN u FOR SYSTEM_TIME AS OF PROCTIME() ON "
    "a.k = u.k GROUP BY 1",
    "versions": "SELECT a.id, v.n FROM a LEFT JOIN v FOR SYSTEM_TIME AS OF a.t ON a.k = v.k",
    "stamped": "SELECT id, k, now() AS at FROM a",
    "stamped_groups": "SELECT k, c, now() AS at FROM (SELECT k, count(*) c FROM a GROUP BY k) q",
    "turns": "SELECT window_start, count(*) c FROM TUMBLE((SELECT * FROM a WHERE at > now() - "
    f"INTERVAL '20 s'), t, {WINDOW}) GROUP BY 1",
    "above": "SELECT n, sum(c) c FROM window_above_lookup GROUP BY n",
    "above_on_close": "SELECT window_end, sum(c) c FROM TUMBLE(filtered_on_close, window_start, "
    "INTERVAL '30 s') GROUP BY 1 EMIT ON WINDOW CLOSE",
}
TABLES = """
    CREATE TABLE a (id INT, k INT, t TIMESTAMP, at TIMESTAMPTZ, WATERMARK FOR t AS t) {idle};
    CREATE TABLE b (id INT, k INT, t TIMESTAMP, WATERMARK FOR t AS t - INTERVAL '2 s') {idle};
    CREATE TABLE u (k INT, n TEXT);
    CREATE TABLE v (k INT PRIMARY KEY, n INT, t TIMESTAMP, WATERMARK FOR t AS t);
    SET streamsql.clock = 'manual';
    ADVANCE CLOCK TO '2100-01-01 00:00:00+00';
    INSERT INTO u VALUES (1, 'x'), (2, 'y'), (3, 'z')
"""


class Life:
    """A database and random statements."""

    def __init__(self, seed: int) -> None:
        self.draw = draw = random.Random(seed)
        self.files = MemoryFileSystem(seed)
        self.db = Database("data", files=self.files)
        self.seconds, self.ids = 0, 0
        idle = "WITH (idle_timeout = '15 seconds')" if draw.random() < 0.5 else ""
        self.said = [s.strip() for s in TABLES.format(idle=idle).split(";")]
        for sql in self.said:
            self.db.execute(sql)
        self.waiting = [n for n in VIEWS if draw.random() < 0.7 or n.startswith(("win", "filt"))]
        self.made: list[str] = []

    def run(self, sql: str) -> None:
        self.said.append(sql)
        self.db.execute(sql)

    def make(self, several: int) -> None:
        for name in self.waiting[:several]:
            self.run(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")
        self.made += self.waiting[:several]
        del self.waiting[:several]

    def moment(self) -> str:
        self.seconds += self.draw.choice([0, 0, 1, 2, 4])
        second = self.seconds - self.draw.choice([0, 0, 0, 1, 3, 12])
        return f"TIMESTAMP '2024-06-01' + INTERVAL '{second} s'"

    def row(self, table: str) -> str:
        self.ids += 1
        key, at = self.draw.randint(1, 4), f", now() + INTERVAL '{self.draw.randint(-30, 30)} s'"
        return f"({self.ids}, {key}, {self.moment()}{at if table == 'a' else ''})"

    def write(self) -> list[str]:
        draw, table = self.draw, self.draw.choice("aaabbuuv")
        if table == "v":
            key = draw.randint(1, 4)
            if draw.random() < 0.2:
                return [f"DELETE FROM v WHERE k = {key}"]
            return [
                f"INSERT INTO v VALUES ({key}, {draw.randint(1, 99)}, {self.moment()}) ON CONFLICT "
                "(k) DO UPDATE SET n = excluded.n, t = excluded.t"
            ]
        if table == "u":
            key, letter = draw.randint(1, 4), draw.choice("xyz")
            return [draw.choice([
                f"DELETE FROM u WHERE k = {key}",
                f"INSERT INTO u VALUES ({key}, '{letter}')",
                f"UPDATE u SET n = '{letter}' WHERE k = {key}",
            ])]  # fmt: skip
        if draw.random() < 0.25 and self.ids:
            chosen = max(1, self.ids - draw.choice([0, 1, 2, 5, 15]))
            return [draw.choice([
                f"DELETE FROM {table} WHERE id = {chosen}",
                f"UPDATE {table} SET k = {draw.randint(1, 4)} WHERE id = {chosen}",
            ])]  # fmt: skip
        rows = ", ".join(self.row(table) for _ in range(draw.choice([1, 1, 1, 3])))
        return [f"INSERT INTO {table} VALUES {rows}"]

    def step(self) -> None:
        choice = self.draw.random()
        if choice < 0.75:
            self.run(self.write()[0])
        elif choice < 0.83:
            written = [self.write()[0] for _ in range(3)]
            self.run("; ".join(["BEGIN", *written, "COMMIT"]))
        elif choice < 0.88:
            self.run(f"ADVANCE CLOCK BY INTERVAL '{self.draw.choice([1, 5, 20])} s'")
        elif choice < 0.91:
            second = max(0, self.seconds - self.draw.choice([0, 5]))
            moment = f"2024-06-01 00:{second // 60:02d}:{second % 60:02d}"
            self.run(f"ADVANCE WATERMARK FOR {self.draw.choice('ab')} TO '{moment}'")
        elif choice < 0.97:
            self.make(2)
        else:
            self.restart()

    def restart(self) -> None:
        self.said.append("-- restart")
        if self.draw.random() < 0.5:
            self.db.close()
        else:
            abandon(self.db)
            self.files.crash()
        self.db = Database("data", files=self.files)

    def verify(self, name: str) -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = self.db.execute(
            f"VERIFY MATERIALIZED VIEW {name}"
        ).fetchall()
        return found

    def damage(self, name: str) -> Delta | None:
        """Take a row away, or put one twice; what was done, to be undone."""
        view = next(v for v in self.db.engine.views.values() if v.relation.name == name)
        rows = view.contents()
        if not rows.num_rows:
            return None
        row = rows.take(np.array([self.draw.randrange(rows.num_rows)]))
        done = Delta(row.batch, np.array([-1]))
        view.store.apply(done)
        return done


@pytest.mark.parametrize("seed", range(LIVES))
def test_right_views_have_no_differences_and_a_lost_row_is_found(seed: int) -> None:
    life = Life(seed)
    try:
        life.make(8)
        for _ in range(STEPS):
            life.step()
        life.make(len(life.waiting))
        for _ in range(8):
            life.run(life.write()[0])
        found = {}
        for name in life.made:
            rows = life.verify(name)
            if rows:
                found[name] = rows
            else:
                done = life.damage(name)
                lost = [] if done is None else life.verify(name)
                assert [w for w, _ in lost] == ([] if done is None else [-1]), name
        if found:
            pytest.fail(f"seed {seed}\n{life.said}\n{found}", pytrace=False)
    finally:
        life.db.close()
