"""JSONB compares by value wherever it is compared: in DuckDB each document is the number of its
place in jsonb's order, the same for equal documents, and the queries are the same text.

    t(id, j, k, n), u(id, j, k, n): j and k documents, n a small number
"""

from __future__ import annotations

import random

import streamsql

from .batch import bag, postgres_like

PLACES: tuple[tuple[str, ...], ...] = (
    ("[]",),
    ("null",),
    ('"1.0"',),
    ('"x"',),
    ("-1.50", "-1.5"),
    ("0", "0.0", "-0.00"),
    ("1", "1.0", "1.000"),
    ("100", "1e2", "100.0"),
    ("false",),
    ("[1, 2.0]", "[1.0, 2]"),
    ('{"a": 1.50, "b": [2]}', '{"b": [2.00], "a": 1.5}'),
    ('{"a": 2, "b": []}',),
)
"""Equal documents side by side, in jsonb's order (PostgreSQL 15)."""

SHAPES: tuple[str, ...] = (
    # membership
    "SELECT id FROM t WHERE j IN ({a}, {b})",
    "SELECT id, j NOT IN ({a}, k, NULL) AS r FROM t",
    "SELECT id FROM t WHERE j IN (SELECT j FROM u)",
    "SELECT id FROM t WHERE j NOT IN (SELECT j FROM u)",
    "SELECT id, j IN (SELECT j FROM u) AS r FROM t",
    "SELECT id, j NOT IN (SELECT j FROM u WHERE j IS NOT NULL) AS r FROM t",
    "SELECT id FROM t WHERE j IN (SELECT j FROM u) OR n = 2",
    "SELECT id, j IN (SELECT u.j FROM u WHERE u.n = t.n) AS r FROM t",
    "SELECT id, n IN (SELECT u.n FROM u WHERE u.k = t.k) AS r FROM t",
    "SELECT id, (n, j) IN (SELECT n, j FROM u WHERE n IS NOT NULL AND j IS NOT NULL) AS r FROM t",
    "SELECT id, j <> ALL (SELECT j FROM u) AS r FROM t",
    "SELECT id, j = ALL (SELECT j FROM u WHERE u.n = t.n) AS r FROM t",
    "SELECT id, j < ANY (SELECT j FROM u) AS r FROM t",
    "SELECT id, j >= ALL (SELECT k FROM u) AS r FROM t",
    "SELECT id, EXISTS (SELECT 1 FROM u WHERE u.k = t.k) AS r FROM t",
    "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.j = t.j AND u.k > t.k)",
    "SELECT id, (SELECT count(*) FROM u WHERE u.j = t.j) AS r FROM t",
    "SELECT id, (SELECT max(u.id) FROM u WHERE u.j <= t.j) AS r FROM t",
    # joins
    "SELECT t.id, u.id AS i FROM t JOIN u USING (j)",
    "SELECT t.id, u.id AS i FROM t, u WHERE t.j = u.j AND t.n <= u.n",
    "SELECT t.id, u.id AS i FROM t FULL JOIN u ON t.j = u.j AND t.k = u.k",
    "SELECT t.id, u.id AS i FROM t LEFT JOIN u ON t.j IS NOT DISTINCT FROM u.j",
    "SELECT t.id, u.id AS i FROM t JOIN u ON t.j < u.j AND t.k >= u.k",
    "SELECT t.id, u.id AS i FROM t JOIN u ON t.j = u.j OR t.k = u.k",
    # groups and sets
    "SELECT count(*) AS c, min(n) AS m FROM t GROUP BY j",
    "SELECT n, count(DISTINCT j) AS c, count(DISTINCT k) AS d FROM t GROUP BY n",
    "SELECT count(*) AS c, grouping(j) AS g FROM t GROUP BY ROLLUP (j, k)",
    "SELECT count(*) AS c FROM (SELECT DISTINCT j, k FROM t) x",
    "SELECT count(*) AS c FROM (SELECT j FROM t UNION SELECT k FROM u) x",
    "SELECT count(*) AS c FROM (SELECT j FROM t EXCEPT SELECT j FROM u) x",
    "SELECT count(*) AS c FROM (SELECT j FROM t INTERSECT ALL SELECT k FROM u) x",
    "SELECT n, array_length(array_agg(DISTINCT j), 1) AS c FROM t GROUP BY n",
    "SELECT n, arg_min(id, j) AS r FROM (SELECT DISTINCT ON (n, j) * FROM t ORDER BY n, j, id) x"
    " WHERE j IS NOT NULL GROUP BY n",
    # order
    "SELECT id, rank() OVER (ORDER BY j) AS r FROM t",
    "SELECT id, count(*) OVER (PARTITION BY j, n) AS r FROM t",
    "SELECT id, row_number() OVER (PARTITION BY n ORDER BY k DESC, id) AS r FROM t",
    "SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY j ORDER BY id) AS r FROM t) x"
    " WHERE r = 1",
    "SELECT id FROM t ORDER BY j, id LIMIT 4",
    # expressions
    "SELECT id, CASE j WHEN {a} THEN 1 WHEN k THEN 2 END AS r FROM t",
    "SELECT id, nullif(j, k) IS NULL AS r, j IS DISTINCT FROM k AS s, j = k AS e FROM t",
    "SELECT id, j BETWEEN {a} AND k AS r, greatest(j, k) = j AS g FROM t",
)
NESTED: tuple[str, ...] = (
    "SELECT t.id, u.id AS i FROM t JOIN u ON ARRAY[t.j, t.k] = ARRAY[u.j, u.k]",
    "SELECT t.id, u.id AS i FROM t JOIN u ON ARRAY[t.j, t.k] < ARRAY[u.j, u.k]",
    "SELECT count(*) AS c FROM t GROUP BY ARRAY[j, k]",
    "SELECT count(DISTINCT ARRAY[j]) AS c FROM t",
    "SELECT id, ARRAY[j] IN (SELECT ARRAY[j] FROM u) AS r FROM t WHERE j IS NOT NULL",
    "SELECT id, rank() OVER (ORDER BY ARRAY[k, j]) AS r FROM t",
    "SELECT id FROM t ORDER BY ARRAY[k, j] DESC, id LIMIT 4",
    "SELECT id, ARRAY[j, k] = ARRAY[{a}, {b}] AS r FROM t",
    "SELECT id, max(ARRAY[j, k]) OVER (PARTITION BY n) = ARRAY[j, k] AS r FROM t",
)


class History:
    """Random rows whose documents are written differently each time."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.next_id = 1

    def document(self) -> tuple[str, str]:
        """(as we write it, as DuckDB does)"""
        if self.random.random() < 0.15:
            return "NULL", "NULL"
        place = self.random.randrange(len(PLACES))
        return f"'{self.random.choice(PLACES[place])}'", str(place)

    def insert(self, table: str) -> tuple[str, str]:
        ours, theirs = [], []
        for _ in range(self.random.randint(1, 4)):
            (j, dj), (k, dk) = self.document(), self.document()
            n = self.random.choice(["1", "2", "3", "NULL"])
            ours.append(f"({self.next_id}, {j}, {k}, {n})")
            theirs.append(f"({self.next_id}, {dj}, {dk}, {n})")
            self.next_id += 1
        start = f"INSERT INTO {table} VALUES "
        return start + ", ".join(ours), start + ", ".join(theirs)

    def statement(self) -> tuple[str, str]:
        table = self.random.choice("tu")
        if self.random.random() < 0.6:
            return self.insert(table)
        rest = self.random.randrange(3)
        if self.random.random() < 0.5:
            return (f"DELETE FROM {table} WHERE id % 3 = {rest}",) * 2
        (j, dj), place = self.document(), f"id % 4 = {rest}"
        return tuple(f"UPDATE {table} SET j = {d}, k = j WHERE {place}" for d in (j, dj))  # type: ignore[return-value]


def _run(shapes: tuple[str, ...], seed: int, length: int) -> None:
    history = History(seed)
    a, b = 6, 10
    db, duck = streamsql.connect(), postgres_like()
    for table in "tu":
        db.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, j JSONB, k JSONB, n INT)")
        duck.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, j INT, k INT, n INT)")
    asked = [s.format(a=f"'{PLACES[a][1]}'::jsonb", b=f"'{PLACES[b][1]}'::jsonb") for s in shapes]
    theirs = [s.format(a=a, b=b) for s in shapes]
    for i, sql in enumerate(asked):
        db.execute(f"CREATE MATERIALIZED VIEW v{i} AS {sql}")
    changes = [history.insert("t"), history.insert("u")]
    changes += [history.statement() for _ in range(length)]
    changes += [("DELETE FROM u",) * 2, ("DELETE FROM t",) * 2]
    for step, (ours, other) in enumerate(changes):
        db.execute(ours)
        duck.execute(other)
        for i, sql in enumerate(theirs):
            wanted = bag(duck.execute(sql).fetchall())
            assert bag(db.execute(f"SELECT * FROM v{i}").fetchall()) == wanted, (asked[i], ours)
            if step % 5 == 3:
                assert bag(db.execute(asked[i]).fetchall()) == wanted, (asked[i], ours)
                assert db.execute(f"VERIFY MATERIALIZED VIEW v{i}").fetchall() == [], asked[i]
    db.close()
    duck.close()


def test_documents_compare_by_value_in_views_queries_and_verify() -> None:
    _run(SHAPES, 7, 9)


def test_arrays_of_documents_compare_by_value() -> None:
    _run(NESTED, 11, 9)


def test_lists_and_picks_of_documents_are_in_their_order() -> None:
    db = streamsql.connect()
    db.execute("CREATE TABLE t (id INT, j JSONB)")
    calls = (
        "array_agg(DISTINCT j)", "array_agg(DISTINCT j ORDER BY j DESC NULLS LAST)",
        "jsonb_agg(DISTINCT j)", "json_agg(DISTINCT j)", "mode() WITHIN GROUP (ORDER BY j)",
        "percentile_disc(0.5) WITHIN GROUP (ORDER BY j)",
        "percentile_disc(ARRAY[0, 1]) WITHIN GROUP (ORDER BY j)", "max(ARRAY[j])", "count(DISTINCT j)",
    )  # fmt: skip
    listed = ", ".join(f"{call} AS c{i}" for i, call in enumerate(calls))
    db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT {listed} FROM t")
    values = ["1", "1.0", '"x"', "2.50", "100", "null", "[]", "1.00", None]
    written = ", ".join(f"({i}, {'NULL' if v is None else repr(v)})" for i, v in enumerate(values))
    db.execute(f"INSERT INTO t VALUES {written}")
    (row,) = db.execute("SELECT * FROM v").fetchall()
    order = ["[]", "null", '"x"', "1", "2.5", "100"]
    assert row == (
        [*order, None], [*order[::-1], None], '[[], null, "x", 1, 2.5, 100, null]',
        '[[], null, "x", 1, 2.5, 100, null]', "1", "1", ["[]", "100"], [None], 6,
    )  # fmt: skip
    assert db.execute(f"SELECT {listed} FROM t").fetchall() == [row]
    assert db.execute("VERIFY MATERIALIZED VIEW v").fetchall() == []
    db.execute("DELETE FROM t WHERE id > 3 OR id = 0")
    (row,) = db.execute("SELECT c0, c4, c5 FROM v").fetchall()
    assert row == (['"x"', "1", "2.5"], '"x"', "1.0")
    db.close()
