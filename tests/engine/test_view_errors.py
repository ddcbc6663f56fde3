"""Rows that a view can not compute: which are kept out, what is shown of them under `null`, and
what `streamsql.view_errors` lists, through random histories, restarts and changes of the view."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from streamsql.core.errors import CardinalityViolation, StatementError
from streamsql.engine.database import Database
from streamsql.operators import duck
from tests.engine.test_recovery import opened, stop
from tests.state.faulty_filesystem import MemoryFileSystem

SHAPES: dict[str, tuple[tuple[str, ...], str]] = {
    # name: (expressions beside the ID, what follows FROM with the outer row as o)
    "correlated": (("(SELECT x FROM b WHERE b.k = o.k)",), "{o}"),
    "uncorrelated": (("(SELECT x FROM b WHERE x > 3)",), "{o}"),
    "beside": (("10 / o.v", "(SELECT x FROM b WHERE b.k = o.k)", "o.k"), "{o}"),
    "within": (("100 / (SELECT x FROM b WHERE b.k = o.k) + o.v",), "{o}"),
    "two": (("(SELECT x FROM b WHERE b.k = o.k)", "(SELECT x FROM b WHERE b.x = o.v)"), "{o}"),
    "inequality": (("(SELECT max(10 / (b.x - o.v)) FROM b WHERE b.k <= o.k)",), "{o}"),
    "array": (("ARRAY(SELECT 10 / (b.x - o.v) FROM b WHERE b.k = o.k ORDER BY 1)",), "{o}"),
    "overflow": (("(SELECT sum(b.x) * 4611686018427387904 FROM b WHERE b.k = o.k)::bigint",),
                 "{o}"),
    "cast": (("(SELECT max(b.x || CASE WHEN o.v = 2 THEN 'x' ELSE '' END) FROM b "
              "WHERE b.k < o.k)::int",), "{o}"),
    "in": (("o.v IN (SELECT 10 / (b.x - o.v) FROM b WHERE b.k <= o.k)",), "{o}"),
    "where": ((), "{o} WHERE o.v < (SELECT x FROM b WHERE b.k = o.k)"),
    "where_all": ((), "{o} WHERE o.v < (SELECT x FROM b WHERE x > 3)"),
    "exists": ((), "{o} WHERE EXISTS (SELECT 1 FROM b WHERE b.k = o.k AND 10 / (b.x - o.v) > 1) "
                   "OR o.v = 9"),
    "lateral": (("s.y",), "{o}, LATERAL (SELECT (SELECT x FROM b WHERE b.k = o.k) AS y) s"),
    "on": (("c.v",), "{o} LEFT JOIN a c ON c.k = o.k "
                     "AND c.v > (SELECT count(*) / (o.v - 1) FROM b WHERE b.k = o.k)"),
}  # fmt: skip
PADDED = {"on"}
"""A condition that fails is NULL, so that the row has no partner."""
ROW = "(SELECT {}::int AS id, {}::int AS k, {}::int AS v)"


def query(name: str, outer: str = "a", only: int | None = None) -> str:
    """only: the one expression that stands there, the others are left out."""
    exprs, tail = SHAPES[name]
    listed = [f"{e} AS c{i}" for i, e in enumerate(exprs) if only in (None, i)]
    return f"SELECT {', '.join(['o.id', *listed])} FROM {tail.format(o=f'{outer} o')}"


def answer(db: Database, sql: str) -> list[tuple[object, ...]] | None:
    try:
        return db.execute(sql).fetchall()
    except StatementError:
        return None


def expected(db: Database, name: str) -> tuple[Counter[str], Counter[str], list[int]]:
    """(rows under skip, rows under null, IDs that fail), each row asked for by itself."""
    skip: list[tuple[object, ...]] = []
    null: list[tuple[object, ...]] = []
    bad = []
    for row in db.execute("SELECT * FROM a").fetchall():
        found = answer(db, query(name, ROW.format(*row)))
        if found is not None:
            skip += found
            null += found
            continue
        bad.append(row[0])
        parts = [answer(db, query(name, ROW.format(*row), i)) for i in range(len(SHAPES[name][0]))]
        if parts and (name in PADDED or SHAPES[name][1] == "{o}" or name == "lateral"):
            null.append((row[0], *(None if part is None else part[0][1] for part in parts)))
    return Counter(map(str, skip)), Counter(map(str, null)), sorted(bad)


def check(db: Database, name: str, what: str) -> None:
    skip, null, bad = expected(db, name)
    assert Counter(map(str, db.execute("SELECT * FROM v_skip").fetchall())) == skip, what
    assert Counter(map(str, db.execute("SELECT * FROM v_null").fetchall())) == null, what
    for view in ("v_skip", "v_null", "v_fail"):
        listed = db.execute(
            f"SELECT (row::json ->> 'id')::int FROM streamsql.view_errors WHERE view = '{view}'"
        )
        assert sorted(i for (i,) in listed.fetchall()) == bad, f"{what}: {view}"
    for view in ("v_skip", "v_null"):
        assert db.execute(f"VERIFY MATERIALIZED VIEW {view}").fetchall() == [], what
    if bad:
        with pytest.raises(StatementError):
            db.execute("SELECT * FROM v_fail")
    else:
        assert Counter(map(str, db.execute("SELECT * FROM v_fail").fetchall())) == skip, what
        assert db.execute("VERIFY MATERIALIZED VIEW v_fail").fetchall() == [], what


def change(rng: random.Random, ids: list[int]) -> str:
    """A statement that changes a table."""
    kind = rng.choice(["a", "a", "b", "b", "b", "b", "gone_a", "gone_b", "gone_b", "moved", "all"])
    k, x = rng.randrange(4), rng.randrange(6)
    if kind == "a":
        ids.append(len(ids))
        return f"INSERT INTO a VALUES ({ids[-1]}, {k}, {x}), ({ids[-1] + 100}, {k}, {x + 1})"
    return {
        "b": f"INSERT INTO b VALUES ({k}, {x})",
        "gone_a": f"DELETE FROM a WHERE v = {x}",
        "gone_b": f"DELETE FROM b WHERE k = {k}",
        "moved": f"UPDATE a SET k = {k}, v = {x} WHERE id % 3 = {x % 3}",
        "all": "DELETE FROM b",
    }[kind]


LIVES = {
    "replaced": "CREATE OR REPLACE MATERIALIZED VIEW {v} WITH (on_error = '{e}') AS {q}",
    "suspended": "ALTER MATERIALIZED VIEW {v} SUSPEND; {c}; ALTER MATERIALIZED VIEW {v} RESUME",
    "again": "DROP MATERIALIZED VIEW {v}; CREATE MATERIALIZED VIEW {v} "
             "WITH (on_error = '{e}') AS {q}",
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_random_history(name: str) -> None:
    rng = random.Random(name)
    files = MemoryFileSystem()
    db, ids = opened(files), []
    db.execute("CREATE TABLE a (id INT, k INT, v INT); CREATE TABLE b (k INT, x INT)")
    for e in ("skip", "null", "fail"):
        sql = f"CREATE MATERIALIZED VIEW v_{e} WITH (on_error = '{e}') AS {query(name)}"
        db.execute(sql)
    for step in range(7):
        what = change(rng, ids)
        db.execute(what)
        check(db, name, f"{step}: {what}")
        if step in (2, 5):
            stop(db, files, crash=bool(step % 2))
            db = opened(files)
            check(db, name, f"{step}: restart")
        if step == 4:
            life = rng.choice(sorted(LIVES))
            for e in ("skip", "null", "fail"):
                text = LIVES[life].format(v=f"v_{e}", e=e, q=query(name), c=change(rng, ids))
                db.execute(text)
            check(db, name, f"{step}: {life}")
    db.execute("DELETE FROM a; DELETE FROM b")
    check(db, name, "undone")
    assert db.execute("SELECT * FROM streamsql.view_errors").fetchall() == []
    db.close()


def test_rows_are_listed_under_the_version_that_they_failed_in() -> None:
    with Database() as db:
        db.execute("CREATE TABLE a (id INT, k INT); CREATE TABLE b (k INT, x INT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT id, (SELECT x FROM b) AS x FROM a")
        db.execute(
            "INSERT INTO a VALUES (1, 1), (2, 1), (2, 1); INSERT INTO b VALUES (1, 1), (1, 2)"
        )
        errors = "SELECT row, version FROM streamsql.view_errors ORDER BY 1"
        first = db.execute(errors).fetchall()
        rows = ['{"id": 1, "k": 1}', '{"id": 2, "k": 1}', '{"id": 2, "k": 1}']
        assert [row for row, _ in first] == rows
        db.execute("INSERT INTO b VALUES (1, 3)")  # the same rows fail still
        assert db.execute(errors).fetchall() == first
        db.execute("DELETE FROM a WHERE id = 2")
        assert db.execute(errors).fetchall() == first[:1]
        db.execute("DELETE FROM a")
        assert db.execute(errors).fetchall() == []
        db.execute("DELETE FROM b WHERE x > 1; INSERT INTO a VALUES (3, 3)")
        assert db.execute("SELECT * FROM v").fetchall() == [(3, 1)]


def test_partitions() -> None:
    """Each row of a partition without a result is kept out and listed."""
    shapes = {
        "SELECT id, ntile(k) OVER (PARTITION BY k ORDER BY id) AS s FROM a": [1, 2],
        "SELECT id, nth_value(id, k) OVER (PARTITION BY k ORDER BY id DESC) AS s FROM a": [1, 2],
    }
    for query_, bad in shapes.items():
        with Database() as db:
            db.execute("CREATE TABLE a (id INT, k INT)")
            for e in ("skip", "null"):
                options = f"WITH (on_error = '{e}')"
                db.execute(f"CREATE MATERIALIZED VIEW v_{e} {options} AS {query_}")
            db.execute("INSERT INTO a VALUES (1, 0), (2, 0), (3, 1)")
            for e, nulls in (("skip", []), ("null", [(i, None) for i in bad])):
                shown = db.execute(f"SELECT * FROM v_{e}").fetchall()
                assert sorted(shown, key=str)[:-1] == nulls
                sql = f"SELECT row FROM streamsql.view_errors WHERE view = 'v_{e}' ORDER BY 1"
                assert [json.loads(t)["id"] for (t,) in db.execute(sql).fetchall()] == bad
                assert db.execute(f"VERIFY MATERIALIZED VIEW v_{e}").fetchall() == []
            db.execute("DELETE FROM a WHERE k = 0")
            assert db.execute("SELECT * FROM streamsql.view_errors").fetchall() == []


def test_rows_that_other_conditions_leave_out_do_not_fail() -> None:
    with Database() as db:
        db.execute("CREATE TABLE a (id INT, k INT); CREATE TABLE b (k INT, x INT)")
        look_up = "(SELECT x FROM b WHERE b.k = a.k)"
        db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT id FROM a WHERE id < 3 AND k < {look_up}")
        db.execute("INSERT INTO a VALUES (1, 1), (2, 2), (3, 3)")
        db.execute("INSERT INTO b VALUES (1, 5), (2, 5), (2, 6), (3, 5), (3, 6)")
        assert db.execute("SELECT * FROM v").fetchall() == [(1,)]
        listed = db.execute("SELECT row FROM streamsql.view_errors").fetchall()
        assert listed == [('{"id": 2, "k": 2}',)]
        assert db.execute("VERIFY MATERIALIZED VIEW v").fetchall() == []


def test_many_rows_that_find_two_are_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    run = duck.run
    monkeypatch.setattr(duck, "run", lambda sql, *rest: calls.append(sql) or run(sql, *rest))
    with Database() as db:
        db.execute("CREATE TABLE a (id INT, k INT); CREATE TABLE b (k INT, x INT)")
        look_up = "(SELECT x FROM b WHERE b.k = a.k)"
        db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT id, {look_up} AS x FROM a")
        db.execute("INSERT INTO a SELECT i, i % 500 FROM generate_series(1, 2000) g(i)")
        db.execute("INSERT INTO b SELECT i, i FROM generate_series(0, 499) g(i)")
        calls.clear()
        db.execute("INSERT INTO b SELECT i, i FROM generate_series(0, 299) g(i)")
        assert len(calls) < 10
        assert db.execute("SELECT count(*) FROM streamsql.view_errors").fetchall() == [(1200,)]
        assert db.execute("SELECT count(*) FROM v").fetchall() == [(800,)]
        with pytest.raises(CardinalityViolation):
            db.execute(f"SELECT {look_up} FROM a")
