"""MERGE: every clause, its errors, and random statements against a plain loop over the rows."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

TABLES = """
CREATE TABLE t (id INT PRIMARY KEY, v INT, n TEXT DEFAULT 'd', g INT GENERATED ALWAYS AS (v * 2) STORED);
CREATE TABLE s (id INT, v INT);
INSERT INTO t VALUES (1, 10), (2, 20), (3, 30);
INSERT INTO s VALUES (1, 100), (2, NULL), (4, 400)"""


@pytest.fixture(autouse=True)
def tables(db):
    for statement in TABLES.split(";"):
        db.execute(statement)


def test_merge_updates_deletes_inserts_and_tells_what_it_did(db, rows):
    result = db.execute(
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED AND s.v IS NULL THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET v = t.v + s.v, n = DEFAULT"
        " WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"
        " WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = 'alone' RETURNING merge_action(), *"
    )
    assert result.tag == "MERGE 4"
    assert [c.name for c in result.columns] == ["merge_action", "id", "v", "id", "v", "n", "g"]
    assert sorted(result.fetchall(), key=repr) == [
        ("DELETE", 2, None, 2, 20, "d", 40),
        ("INSERT", 4, 400, 4, 400, "d", 800),
        ("UPDATE", 1, 100, 1, 110, "d", 220),
        ("UPDATE", None, None, 3, 30, "alone", 60),
    ]
    assert rows("SELECT * FROM t") == [(1, 110, "d", 220), (3, 30, "alone", 60), (4, 400, "d", 800)]


def test_values_of_a_branch_that_is_not_taken_are_not_computed(db, rows):
    db.execute(
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED AND s.v IS NULL THEN DO NOTHING"
        " WHEN MATCHED AND 100 / s.v = 1 THEN UPDATE SET v = 100 / (s.v - 99)"
        " WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 1 / (s.v - 399))"
    )
    assert rows("SELECT id, v FROM t") == [(1, 100), (2, 20), (3, 30), (4, 1)]


def test_second_match_of_one_row_is_refused_unless_nothing_is_done(db, rows, fails):
    db.execute("INSERT INTO s VALUES (1, 5)")
    error = fails("MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 1", "21000")
    assert error.message == "MERGE command cannot affect row a second time"
    db.execute(
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED AND s.v = 5"
        " THEN UPDATE SET v = (SELECT max(v) FROM s) WHEN MATCHED THEN DO NOTHING"
    )
    assert rows("SELECT id, v FROM t") == [(1, 400), (2, 20), (3, 30)]


def test_sources_of_all_kinds_and_aliases(db, rows):
    db.execute(
        "MERGE INTO t AS x USING (VALUES (7, 70)) AS q (a, b) ON x.id = a WHEN NOT MATCHED THEN INSERT VALUES (a, b)"
    )
    db.execute("MERGE INTO t USING generate_series(2, 3) AS k ON id = k WHEN MATCHED THEN DELETE")
    db.execute(
        "WITH c AS (SELECT 1 AS i) MERGE INTO t USING c ON t.id = c.i WHEN MATCHED THEN UPDATE SET (v, n) = (i, 'c')"
    )
    db.execute(
        "MERGE INTO t USING s ON t.id < s.id - 2 AND s.v > 3 WHEN NOT MATCHED BY SOURCE THEN DELETE WHEN MATCHED THEN DO NOTHING"
    )
    assert rows("SELECT id, v, n FROM t") == [(1, 1, "c")]


def test_merge_with_parameters_in_a_transaction_reads_its_own_writes(db, rows):
    session = db.session()
    session.execute("PREPARE p AS MERGE INTO t USING (SELECT $1::int AS id) q ON q.id = t.id"
                    " WHEN MATCHED THEN UPDATE SET v = t.v + $2 WHEN NOT MATCHED THEN INSERT (id, v) VALUES (q.id, $2)")  # fmt: skip
    session.execute("BEGIN")
    session.execute("EXECUTE p(9, 1)")
    session.execute("EXECUTE p(9, 5)")
    assert session.execute("SELECT v FROM t WHERE id = 9").fetchall() == [(6,)]
    session.execute("COMMIT")
    assert rows("SELECT v FROM t WHERE id = 9") == [(6,)]
    session.close()


def test_views_follow_a_merge(db, rows):
    db.execute("CREATE MATERIALIZED VIEW total AS SELECT sum(v) AS s, count(*) AS n FROM t")
    db.execute(
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"
    )
    assert rows("SELECT * FROM total") == [(430, 2)]


@pytest.mark.parametrize(("tail", "sqlstate"), [
    ("WHEN MATCHED THEN DELETE WHEN MATCHED THEN DO NOTHING", "42601"),
    ("WHEN NOT MATCHED THEN INSERT (id) VALUES (t.id)", "42P01"),
    ("WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = s.v", "42P01"),
    ("WHEN MATCHED THEN UPDATE SET g = 1", "428C9"),
    ("WHEN MATCHED THEN UPDATE SET zz = 1", "42703"),
    ("WHEN MATCHED THEN UPDATE SET v = 1, v = 2", "42601"),
    ("WHEN MATCHED THEN UPDATE SET v = 'x'", "22P02"),
    ("WHEN MATCHED THEN UPDATE SET v = now()", "42804"),
    ("WHEN MATCHED AND v > 1 THEN DELETE", "42702"),
    ("WHEN NOT MATCHED THEN INSERT (id, v) VALUES (1)", "42601"),
    ("WHEN NOT MATCHED THEN INSERT (id, id) VALUES (1, 1)", "42701"),
    ("WHEN NOT MATCHED THEN INSERT VALUES (1, 2, 'a', 4)", "428C9"),
    ("WHEN NOT MATCHED THEN INSERT VALUES (1, 2, 'a', DEFAULT, 5)", "42601"),
    ("WHEN NOT MATCHED THEN INSERT (v) VALUES (1)", "23502"),
    ("WHEN NOT MATCHED THEN INSERT (id) VALUES (3)", "23505"),
    ("WHEN MATCHED THEN INSERT (id) VALUES (3)", "42601"),
    ("WHEN MATCHED THEN DELETE RETURNING sum(t.v)", "42803"),
])  # fmt: skip
def test_wrong_merge_is_refused_and_changes_nothing(rows, fails, tail: str, sqlstate: str) -> None:
    before = rows("SELECT * FROM t")
    fails(f"MERGE INTO t USING s ON t.id = s.id {tail}", sqlstate)
    assert rows("SELECT * FROM t") == before


def test_targets_that_are_no_tables_are_refused(db, fails):
    db.execute("CREATE VIEW v AS SELECT * FROM t")
    fails("MERGE INTO v USING s ON v.id = s.id WHEN MATCHED THEN DELETE", "55000")
    fails("MERGE INTO nope USING s ON true WHEN MATCHED THEN DELETE", "42P01")
    fails("MERGE INTO t USING t ON true WHEN MATCHED THEN DELETE", "42712")
    fails("MERGE INTO t USING (SELECT 1) ON true WHEN MATCHED THEN DELETE", "42601")
    db.execute("CREATE TABLE a (id INT) APPEND ONLY")
    fails("MERGE INTO a USING s ON a.id = s.id WHEN MATCHED THEN DELETE", "0A000")
    db.execute("MERGE INTO a USING s ON a.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (s.id)")


# random statements against a loop -----------------------------------------------------------------
Row = dict[str, Any]
CLAUSES: list[tuple[str, str, Callable[[Row | None, Row | None], bool], Callable[[Row | None, Row | None], Any]]] = [
    ("matched", "WHEN MATCHED AND s.v > t.v THEN UPDATE SET v = s.v", lambda t, s: s["v"] > t["v"], lambda t, s: {**t, "v": s["v"]}),
    ("matched", "WHEN MATCHED AND s.v < 2 THEN DELETE", lambda t, s: s["v"] < 2, lambda t, s: None),
    ("matched", "WHEN MATCHED AND t.v % 2 = 0 THEN DO NOTHING", lambda t, s: t["v"] % 2 == 0, lambda t, s: "nothing"),
    ("matched", "WHEN MATCHED THEN UPDATE SET v = t.v + 100", lambda t, s: True, lambda t, s: {**t, "v": t["v"] + 100}),
    ("new", "WHEN NOT MATCHED AND s.v > 3 THEN INSERT VALUES (s.id, s.v)", lambda t, s: s["v"] > 3, lambda t, s: dict(s)),
    ("new", "WHEN NOT MATCHED BY TARGET AND s.v = 0 THEN DO NOTHING", lambda t, s: s["v"] == 0, lambda t, s: "nothing"),
    ("new", "WHEN NOT MATCHED THEN INSERT (v, id) VALUES (-s.v, s.id)", lambda t, s: True, lambda t, s: {"id": s["id"], "v": -s["v"]}),
    ("old", "WHEN NOT MATCHED BY SOURCE AND t.v > 5 THEN DELETE", lambda t, s: t["v"] > 5, lambda t, s: None),
    ("old", "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = 0", lambda t, s: True, lambda t, s: {**t, "v": 0}),
]  # fmt: skip


def reference(target: list[Row], source: list[Row], clauses: list[Any]) -> list[Row] | None:
    """What MERGE makes of the target; None = 21000."""
    pairs: list[tuple[str, Row | None, Row | None]] = []
    for s in source:
        matches = [t for t in target if t["id"] == s["id"]]
        pairs += [("matched", t, s) for t in matches] or [("new", None, s)]
    ids = {s["id"] for s in source}
    pairs += [("old", t, None) for t in target if t["id"] not in ids]
    result = {id(t): t for t in target}
    touched: set[int] = set()
    added = []
    for kind, t, s in pairs:
        chosen = next((c for c in clauses if c[0] == kind and c[2](t, s)), None)
        if chosen is None or chosen[3](t, s) == "nothing":
            continue
        if kind == "new":
            added.append(chosen[3](t, s))
            continue
        if id(t) in touched:
            return None
        touched.add(id(t))
        changed = chosen[3](t, s)
        result[id(t)] = changed
    return [r for r in result.values() if r is not None] + added


@pytest.mark.parametrize("seed", range(12))
def test_random_merge_equals_a_loop_over_the_rows(db, rows, fails, seed: int) -> None:
    draw = random.Random(seed)
    db.execute("DROP TABLE t")
    db.execute("DROP TABLE s")
    db.execute("CREATE TABLE t (id INT, v INT)")
    db.execute("CREATE TABLE s (id INT, v INT)")
    target = [{"id": i, "v": draw.randrange(10)} for i in draw.sample(range(12), 6)]
    source = [
        {"id": draw.randrange(12), "v": draw.randrange(8)} for _ in range(draw.randrange(1, 6))
    ]
    db.insert("t", target)
    db.insert("s", source)
    clauses = [c for c in CLAUSES if draw.random() < 0.6] or CLAUSES[:1]
    sql = "MERGE INTO t USING s ON t.id = s.id " + " ".join(c[1] for c in clauses)
    wanted = reference(target, source, clauses)
    if wanted is None:
        fails(sql, "21000")
        wanted = target
    else:
        db.execute(sql)
    assert rows("SELECT id, v FROM t") == sorted(((r["id"], r["v"]) for r in wanted), key=repr)
