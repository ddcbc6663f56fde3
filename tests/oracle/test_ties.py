"""Rows that are equal in ORDER BY: what tells them apart is what they hold, never ticks, history or
arrival. Views, plain SELECTs and VERIFY agree with DuckDB, which is told the order in full."""

from __future__ import annotations

import random

import duckdb
import pytest

import streamsql

from .batch import Row, Shape, difference

KEYED = "id INT PRIMARY KEY, k INT, x INT, s TEXT"
BARE = "k INT, x INT, s TEXT"
LAST = "NULLS LAST"
SHAPES: tuple[Shape, ...] = (
    Shape(
        "over_above_over",
        "SELECT id, lag(x) OVER (ORDER BY k, id) AS l, row_number() OVER (ORDER BY x) AS r FROM t",
        "SELECT id, lag(x) OVER (ORDER BY k, id) AS l, row_number() OVER (ORDER BY x, id) AS r FROM t",
    ),
    Shape(
        "ranks_and_ends",
        "SELECT id, rank() OVER w AS a, ntile(3) OVER w AS n, first_value(s) OVER w AS f, last_value(s) OVER w AS l, nth_value(id, 2) OVER w AS m FROM t WINDOW w AS (PARTITION BY k ORDER BY x)",
        "SELECT id, rank() OVER w AS a, ntile(3) OVER (PARTITION BY k ORDER BY x, id) AS n, first_value(s ORDER BY x, id) OVER w AS f, last_value(s ORDER BY x, id) OVER w AS l, nth_value(id, 2 ORDER BY x, id) OVER w AS m FROM t WINDOW w AS (PARTITION BY k ORDER BY x)",
    ),
    Shape(
        "descending",
        "SELECT id, lead(id, 2) OVER (PARTITION BY k ORDER BY x DESC) AS l FROM t",
        "SELECT id, lead(id, 2) OVER (PARTITION BY k ORDER BY x DESC NULLS FIRST, id) AS l FROM t",
    ),
    Shape(
        "frame_of_rows",
        "SELECT id, sum(id) OVER (ORDER BY x ROWS 1 PRECEDING) AS a, string_agg(s, ',') OVER (ORDER BY x) AS b FROM t",
        "SELECT id, sum(id) OVER (ORDER BY x, id ROWS 1 PRECEDING) AS a, string_agg(s, ',' ORDER BY x, id) OVER (ORDER BY x) AS b FROM t",
    ),
    Shape(
        "without_order",
        "SELECT id, row_number() OVER () AS r, lag(id) OVER (PARTITION BY k) AS l FROM t",
        "SELECT id, row_number() OVER (ORDER BY id) AS r, lag(id) OVER (PARTITION BY k ORDER BY id) AS l FROM t",
    ),
    Shape(
        "top",
        "SELECT * FROM (SELECT id, s, row_number() OVER (PARTITION BY k ORDER BY x) AS r FROM t) q WHERE r <= 2",
        "SELECT * FROM (SELECT id, s, row_number() OVER (PARTITION BY k ORDER BY x, id) AS r FROM t) q WHERE r <= 2",
    ),
    Shape(
        "top_above_over",
        "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY p) AS r FROM (SELECT id, k, lag(x) OVER (ORDER BY x) AS p FROM t) q) q WHERE r <= 2",
        "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY p, id) AS r FROM (SELECT id, k, lag(x) OVER (ORDER BY x, id) AS p FROM t) q) q WHERE r <= 2",
    ),
    Shape("limit", "SELECT id, x FROM t ORDER BY x LIMIT 3 OFFSET 1", "SELECT id, x FROM t ORDER BY x, id LIMIT 3 OFFSET 1"),
    Shape(
        "distinct_on",
        "SELECT DISTINCT ON (k) k, s, id FROM t ORDER BY k, x",
        "SELECT k, s, id FROM t QUALIFY row_number() OVER (PARTITION BY k ORDER BY x, id) = 1",
    ),
    Shape(
        "no_key",
        "SELECT k, x, s, row_number() OVER (PARTITION BY k ORDER BY x) AS r, lag(s) OVER (PARTITION BY k ORDER BY x) AS l FROM b",
        "SELECT k, x, s, row_number() OVER (PARTITION BY k ORDER BY x, s) AS r, lag(s) OVER (PARTITION BY k ORDER BY x, s) AS l FROM b",
    ),
    Shape(
        "no_key_top",
        "SELECT k, x, s FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY x) AS r FROM b) q WHERE r <= 2",
        "SELECT k, x, s FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY x, s) AS r FROM b) q WHERE r <= 2",
    ),
    Shape(
        "no_key_grows",
        "SELECT k, s, x FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY x) AS r FROM g) q WHERE r <= 2",
        "SELECT k, s, x FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY x, s) AS r FROM g) q WHERE r <= 2",
    ),
    Shape(
        "no_key_grows_last",
        "SELECT k, s, x FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY x DESC) AS r FROM g) q WHERE r = 1",
        "SELECT k, s, x FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY x DESC NULLS FIRST, s) AS r FROM g) q WHERE r = 1",
    ),
    Shape(
        "above_join",
        "SELECT t.id, b.s, row_number() OVER (PARTITION BY t.id ORDER BY b.x) AS r FROM t JOIN b ON t.k = b.k",
        "SELECT t.id, b.s, row_number() OVER (PARTITION BY t.id ORDER BY b.x, b.s) AS r FROM t JOIN b ON t.k = b.k",
    ),
    Shape(
        "above_union",
        "SELECT x, s, lag(s) OVER (ORDER BY x) AS l FROM (SELECT x, s FROM t UNION ALL SELECT x, s FROM b) q",
        "SELECT x, s, lag(s) OVER (ORDER BY x, s) AS l FROM (SELECT x, s FROM t UNION ALL SELECT x, s FROM b) q",
    ),
    Shape(
        "above_aggregate",
        "SELECT k, n, row_number() OVER (ORDER BY n) AS r FROM (SELECT k, count(*) AS n FROM t GROUP BY k) q",
        f"SELECT k, n, row_number() OVER (ORDER BY n, k {LAST}) AS r FROM (SELECT k, count(*) AS n FROM t GROUP BY k) q",
    ),
    Shape(
        "lists",
        "SELECT k, array_agg(s ORDER BY x) AS a, string_agg(s, '-' ORDER BY x DESC) AS b, first_value(id ORDER BY x) AS f FROM t GROUP BY k",
        "SELECT k, list(s ORDER BY x, s) AS a, string_agg(s, '-' ORDER BY x DESC NULLS FIRST, s) AS b, first(id ORDER BY x, id) AS f FROM t GROUP BY k",
    ),
    Shape(
        "lists_above_join",
        "SELECT t.id, array_agg(b.s) AS a, any_value(b.x) AS v, max_by(b.s, b.x) AS m FROM t JOIN b ON t.k = b.k GROUP BY t.id",
        "SELECT t.id, list(b.s ORDER BY b.s) AS a, min(b.x) AS v, first(b.s ORDER BY b.x DESC NULLS LAST, b.s) FILTER (WHERE b.x IS NOT NULL AND b.s IS NOT NULL) AS m FROM t JOIN b ON t.k = b.k GROUP BY t.id",
    ),
    Shape(
        "lists_above_over",
        "SELECT k, string_agg(s, ',') AS a FROM (SELECT k, s, row_number() OVER (ORDER BY x) AS r FROM t) q WHERE r % 2 = 0 GROUP BY k",
        "SELECT k, string_agg(s, ',' ORDER BY s) AS a FROM (SELECT k, s, row_number() OVER (ORDER BY x, k, s) AS r FROM t) q WHERE r % 2 = 0 GROUP BY k",
    ),
)  # fmt: skip
UNORDERED = (
    ("bare_limit", "SELECT k, s FROM b LIMIT 3"),
    ("two_orders", "SELECT x, lag(x) OVER (ORDER BY s) AS l, row_number() OVER (ORDER BY k) AS r, k, s FROM b"),
    ("excluding", "SELECT x, s, count(*) OVER (ORDER BY x ROWS 2 PRECEDING EXCLUDE TIES) AS n FROM b"),
    ("of_nothing_else", "SELECT x, sum(x) OVER (ORDER BY k ROWS 1 PRECEDING) AS l FROM b"),
)  # fmt: skip
"""Shapes without a text of DuckDB's: a plain LIMIT is anybody's choice, equal rows have no names."""


class Pair:
    """The engine with a view a shape, and DuckDB over the same statements."""

    def __init__(self) -> None:
        self.db, self.oracle = streamsql.connect(), duckdb.connect()
        self.oracle.execute("SET default_null_order = 'nulls_last'")
        for name, columns, grows in (("t", KEYED, ""), ("b", BARE, ""), ("g", BARE, "APPEND ONLY")):
            self.db.execute(f"CREATE TABLE {name} ({columns}) {grows}")
            self.oracle.execute(f"CREATE TABLE {name} ({columns})")

    def run(self, sql: str) -> None:
        self.db.execute(sql)
        self.oracle.execute(sql)

    def rows(self, sql: str) -> list[Row]:
        return [tuple(r) for r in self.db.execute(sql).fetchall()]

    def check(self, after: str) -> None:
        for shape in SHAPES:
            wanted = self.oracle.execute(shape.duckdb).fetchall()
            found = difference(self.rows(f"SELECT * FROM v_{shape.name}"), wanted)
            assert not found, (shape.name, after, found)
            found = difference(self.rows(shape.sql), wanted)
            assert not found, ("ad hoc", shape.name, after, found)
        for name in (*(s.name for s in SHAPES), *(n for n, _ in UNORDERED)):
            found = self.db.execute(f"VERIFY MATERIALIZED VIEW v_{name}").fetchall()
            assert found == [], (name, after, found)


def statements(draw: random.Random) -> list[str]:
    """Rows that tie almost everywhere; updates that move nothing, and that move ties."""
    made: list[str] = []

    def row() -> str:
        k, x = draw.choice(["1", "2", "NULL"]), draw.choice(["0", "1", "NULL"])
        return f"{k}, {x}, '{draw.choice('abc')}{draw.choice(['', ' a longer text'])}'"

    for i in range(3):
        made.append(
            f"INSERT INTO t VALUES {', '.join(f'({4 * i + j}, {row()})' for j in draw.sample(range(4), 4))}"
        )
        made.append(f"INSERT INTO b VALUES {', '.join(f'({row()})' for _ in range(3))}")
        made.append(f"INSERT INTO g VALUES {', '.join(f'({row()})' for _ in range(4))}")
        made.append(draw.choice(["UPDATE t SET x = x", f"UPDATE t SET x = x WHERE id = {i}"]))
        made.append(f"UPDATE t SET s = s || 'z' WHERE id = {draw.randrange(8)}")
        made.append(f"UPDATE b SET k = k WHERE x = {draw.randrange(2)}")
        made.append(
            draw.choice(
                ["DELETE FROM b WHERE x = 1 AND k = 1", f"DELETE FROM t WHERE id = {2 * i}"]
            )
        )
    return made  # fmt: skip


@pytest.mark.parametrize("seed", [1, 2])
def test_ties_do_not_depend_on_history(seed: int) -> None:
    pair = Pair()
    for name, sql in (*((s.name, s.sql) for s in SHAPES), *UNORDERED):
        pair.db.execute(f"CREATE MATERIALIZED VIEW v_{name} AS {sql}")
    draw = random.Random(seed)
    for i, statement in enumerate(statements(draw)):
        pair.run(statement)
        if i % 4 == 3 or i > 17:
            pair.check(statement)
    pair.db.close()


def test_an_index_finds_the_first_of_equal_rows() -> None:
    db = streamsql.connect()
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, x INT)")
    db.execute("INSERT INTO t VALUES (3, 1), (2, 1), (1, 1), (5, 2), (4, 2), (6, 3)")
    for how, first in (("", [1, 2, 3, 4]), ("DESC", [6, 4, 5, 1])):
        sql = f"SELECT id FROM t ORDER BY x {how} LIMIT"
        plain = [db.execute(f"{sql} {n}").fetchall() for n in range(1, 5)]
        assert sorted(plain[-1]) == sorted((i,) for i in first)
        db.execute("CREATE INDEX i ON t (x)")
        found = [db.execute(f"{sql} {n}").fetchall() for n in range(1, 5)]
        assert [sorted(f) for f in found] == [sorted(p) for p in plain]
        db.execute("DROP INDEX i")
