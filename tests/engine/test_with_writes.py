"""WITH whose CTEs write, and subqueries in RETURNING and ON CONFLICT DO UPDATE."""

from __future__ import annotations

import threading

import pytest


@pytest.fixture(autouse=True)
def tables(db):
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.execute("CREATE TABLE log (id INT, what TEXT)")
    db.execute("INSERT INTO t VALUES (1, 10), (2, 20)")


# --- WITH -----------------------------------------------------------------------------------------
def test_rows_move_from_one_table_to_another_in_one_version(db, rows):
    db.execute("CREATE MATERIALIZED VIEW ids AS SELECT id FROM t UNION ALL SELECT id FROM log")
    stream = db.subscribe("ids", snapshot=False)
    result = db.execute(
        "WITH moved AS (DELETE FROM t WHERE v > 15 RETURNING id, v)"
        " INSERT INTO log SELECT id, 'moved ' || v FROM moved RETURNING *"
    )
    assert result.tag == "INSERT 0 1"
    assert result.fetchall() == [(2, "moved 20")]
    assert (rows("TABLE t"), rows("TABLE log")) == ([(1, 10)], [(2, "moved 20")])
    assert stream.poll() == []  # out of one table and into the other: the view never changed
    stream.close()


def test_every_part_reads_the_tables_as_before(db, rows):
    found = rows(
        "WITH a AS (INSERT INTO t VALUES (3, 30) RETURNING *), b AS (DELETE FROM t WHERE id = 1 RETURNING id)"
        " SELECT a.*, (SELECT count(*) FROM t), (SELECT id FROM b) FROM a"
    )
    assert found == [(3, 30, 2, 1)]
    assert rows("TABLE t") == [(2, 20), (3, 30)]


def test_of_two_changes_of_one_row_the_first_counts(db, rows):
    db.execute(
        "WITH a AS (UPDATE t SET v = 100 WHERE id = 1), b AS (UPDATE t SET v = 200) SELECT 1"
    )
    assert rows("TABLE t") == [(1, 100), (2, 200)]
    found = rows("WITH a AS (DELETE FROM t RETURNING *), b AS (UPDATE t SET v = 5 RETURNING *)"
                 " SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b)")  # fmt: skip
    assert found == [(2, 0)]
    assert rows("TABLE t") == []


def test_queries_and_writes_mix_and_columns_are_renamed(db, rows):
    db.execute(
        "WITH k AS (SELECT 1 AS i), u (key, val) AS (UPDATE t SET v = v + 1 FROM k WHERE t.id = k.i RETURNING t.id, v),"
        " l AS (INSERT INTO log SELECT key, 'up ' || val FROM u), m AS (SELECT max(key) AS top FROM u)"
        " MERGE INTO t USING m ON t.id = m.top + 1 WHEN MATCHED THEN UPDATE SET v = (SELECT val FROM u)"
    )
    assert rows("TABLE t") == [(1, 11), (2, 11)]
    assert rows("TABLE log") == [(1, "up 11")]


def test_parameters_of_all_parts(db, rows):
    assert rows(
        "WITH a AS (INSERT INTO t VALUES ($1, $2) RETURNING id) SELECT id + $3 FROM a", [20, 21, 22]
    ) == [(42,)]


def test_inside_a_transaction_earlier_writes_are_seen_and_all_can_be_undone(db):
    session = db.session()
    session.execute("BEGIN")
    session.execute("INSERT INTO t VALUES (3, 1)")
    found = session.execute(
        "WITH d AS (DELETE FROM t WHERE id = 3 RETURNING *) SELECT d.id, t.v FROM d, t WHERE t.id = d.id"
    )
    assert found.fetchall() == [(3, 1)]
    assert session.execute("SELECT id FROM t ORDER BY id").fetchall() == [(1,), (2,)]
    session.execute("ROLLBACK")
    assert session.execute("SELECT id FROM t ORDER BY id").fetchall() == [(1,), (2,)]
    session.close()


@pytest.mark.parametrize(("sql", "sqlstate"), [
    ("WITH a AS (INSERT INTO t VALUES (9, 9)) SELECT * FROM a", "0A000"),
    ("WITH a AS (INSERT INTO t VALUES (9, 9)), a AS (SELECT 1) SELECT 1", "42712"),
    ("WITH a (x, y) AS (INSERT INTO t VALUES (9, 9) RETURNING id) SELECT 1", "42P10"),
    ("SELECT * FROM (WITH a AS (INSERT INTO t VALUES (9, 9) RETURNING *) SELECT * FROM a) x", "0A000"),
    ("WITH a AS (INSERT INTO t VALUES (9, 9) RETURNING id) INSERT INTO t SELECT id, 0 FROM a", "23505"),
    ("WITH a AS (INSERT INTO t VALUES (9, 9) RETURNING id) SELECT 1 / (id - 9) FROM a", "22012"),
    ("CREATE VIEW v AS WITH a AS (DELETE FROM t RETURNING *) SELECT * FROM a", "0A000"),
])  # fmt: skip
def test_wrong_with_is_refused_and_changes_nothing(rows, fails, sql: str, sqlstate: str) -> None:
    fails(sql, sqlstate)
    assert rows("TABLE t") == [(1, 10), (2, 20)]


def test_statements_of_two_sessions_on_one_row_are_all_counted(db, rows):
    def add() -> None:
        session = db.session()
        for _ in range(10):
            session.execute(
                "WITH u AS (UPDATE t SET v = v + 1 WHERE id = 1 RETURNING v) INSERT INTO log SELECT v, 'x' FROM u"
            )
        session.close()

    threads = [threading.Thread(target=add) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rows("SELECT v FROM t WHERE id = 1") == [(30,)]
    assert rows("SELECT count(*), count(DISTINCT id) FROM log") == [(20, 20)]


# --- RETURNING ------------------------------------------------------------------------------------
def test_subqueries_of_returning_see_the_tables_as_before(db, rows):
    found = db.execute("INSERT INTO t VALUES (3, 30) RETURNING id, (SELECT count(*) FROM t)")
    assert found.fetchall() == [(3, 2)]
    found = db.execute(
        "UPDATE t SET v = v + 1 WHERE id < 3 RETURNING *, (SELECT o.v FROM t AS o WHERE o.id = t.id)"
    )
    assert sorted(found.fetchall()) == [(1, 11, 10), (2, 21, 20)]
    found = db.execute(
        "DELETE FROM t WHERE id = 3 RETURNING EXISTS (SELECT 1 FROM t AS o WHERE o.id = t.id), t.v + 1"
    )
    assert found.fetchall() == [(True, 31)]


@pytest.mark.parametrize(("item", "sqlstate"), [
    ("sum(v)", "42803"), ("row_number() OVER ()", "42P20"), ("generate_series(1, 2)", "0A000"),
])  # fmt: skip
def test_returning_gives_one_row_for_each(rows, fails, item: str, sqlstate: str) -> None:
    error = fails(f"INSERT INTO t VALUES (5, 5) RETURNING {item}", sqlstate)
    assert error.position == len("INSERT INTO t VALUES (5, 5) RETURNING ")
    assert rows("SELECT * FROM t WHERE id = 5") == []


# --- ON CONFLICT ----------------------------------------------------------------------------------
def test_subqueries_in_do_update(db, rows):
    db.execute("INSERT INTO log VALUES (1, 'one')")
    found = db.execute(
        "INSERT INTO t AS x VALUES (1, 5), (2, 6), (3, 7) ON CONFLICT (id) DO UPDATE"
        " SET v = excluded.v + x.v + (SELECT count(*) FROM t)::int"
        " WHERE EXISTS (SELECT 1 FROM log WHERE log.id = x.id) RETURNING *"
    )
    assert sorted(found.fetchall()) == [(1, 17), (3, 7)]
    assert rows("TABLE t") == [(1, 17), (2, 20), (3, 7)]


def test_subquery_in_do_update_reads_the_transaction(db, rows):
    session = db.session()
    session.execute("BEGIN")
    for _ in range(2):
        session.execute(
            "INSERT INTO t VALUES (9, 1) ON CONFLICT (id) DO UPDATE SET v = (SELECT v FROM t WHERE id = 9) + 1"
        )
    session.execute("COMMIT")
    session.close()
    assert rows("SELECT v FROM t WHERE id = 9") == [(2,)]


def test_do_update_with_a_subquery_is_computed_again_when_the_row_has_changed(db, rows):
    def add() -> None:
        session = db.session()
        for _ in range(10):
            session.execute(
                "INSERT INTO t VALUES (1, 0) ON CONFLICT (id) DO UPDATE SET v = t.v + (SELECT 1)"
            )
        session.close()

    threads = [threading.Thread(target=add) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rows("SELECT v FROM t WHERE id = 1") == [(30,)]
