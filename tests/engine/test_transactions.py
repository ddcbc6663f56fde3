"""Transactions: one tick, one version read, all or nothing."""

from __future__ import annotations

import pytest

from streamsql.core.errors import (
    InFailedTransaction,
    InvalidSavepoint,
    NoActiveTransaction,
    ReadOnlyTransaction,
    SerializationFailure,
    UniqueViolation,
)


@pytest.fixture(autouse=True)
def table(db):
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n, sum(v) AS s FROM t")
    db.execute("INSERT INTO t VALUES (1, 10), (2, 20)")


@pytest.fixture
def one(db):
    return db.session()


@pytest.fixture
def two(db):
    return db.session()


def read(session, sql):
    return sorted(session.execute(sql).fetchall())


def test_writes_are_one_tick_and_invisible_before(db, one, two):
    before = db.version
    one.execute("BEGIN")
    one.execute("INSERT INTO t VALUES (3, 30)")
    one.execute("UPDATE t SET v = v + 1 WHERE id < 3")
    one.execute("DELETE FROM t WHERE id = 2")
    assert read(one, "SELECT * FROM t") == [(1, 11), (3, 30)]
    assert read(two, "SELECT * FROM t") == [(1, 10), (2, 20)]
    one.execute("COMMIT")
    assert db.version == before + 1
    assert read(two, "SELECT * FROM m") == [(2, 41)]


def test_reads_see_one_version(one, two):
    one.execute("BEGIN")
    assert read(one, "SELECT n FROM m") == [(2,)]
    two.execute("INSERT INTO t VALUES (9, 9)")
    two.execute("UPDATE t SET v = 0 WHERE id = 1")
    assert read(one, "SELECT * FROM t") == [(1, 10), (2, 20)]
    assert read(one, "SELECT * FROM m") == [(2, 30)]
    one.execute("COMMIT")
    assert read(one, "SELECT * FROM t") == [(1, 0), (2, 20), (9, 9)]


def test_rollback_undoes_writes_variables_and_tables(one, two):
    one.execute("BEGIN")
    one.execute("SET timezone = 'Europe/Paris'")
    one.execute("CREATE TABLE x (a INT)")
    one.execute("INSERT INTO x VALUES (1)")
    one.execute("DELETE FROM t")
    one.execute("ROLLBACK")
    assert read(two, "SELECT * FROM m") == [(2, 30)]
    assert one.execute("SHOW timezone").fetchall() == [("UTC",)]
    assert ("x",) not in one.execute("SHOW TABLES").fetchall()


def test_second_writer_of_a_row_fails_at_commit(one, two):
    one.execute("BEGIN")
    one.execute("UPDATE t SET v = 1 WHERE id = 1")
    two.execute("UPDATE t SET v = 2 WHERE id = 1")
    with pytest.raises(SerializationFailure):
        one.execute("COMMIT")
    assert one.transaction_status == "I"
    assert read(two, "SELECT v FROM t WHERE id = 1") == [(2,)]


def test_same_new_key_in_two_transactions_fails_at_commit(one, two):
    one.execute("BEGIN")
    one.execute("INSERT INTO t VALUES (7, 1)")
    two.execute("INSERT INTO t VALUES (7, 2)")
    with pytest.raises(SerializationFailure):
        one.execute("COMMIT")


def test_writes_to_other_rows_do_not_conflict(one, two):
    one.execute("BEGIN")
    one.execute("UPDATE t SET v = 1 WHERE id = 1")
    two.execute("UPDATE t SET v = 2 WHERE id = 2")
    one.execute("COMMIT")
    assert read(two, "SELECT * FROM t") == [(1, 1), (2, 2)]


def test_failed_transaction_answers_25p02_until_its_end(one):
    one.execute("BEGIN")
    with pytest.raises(UniqueViolation):
        one.execute("INSERT INTO t VALUES (1, 1)")
    assert one.transaction_status == "E"
    with pytest.raises(InFailedTransaction):
        one.execute("SELECT 1")
    assert one.execute("COMMIT").tag == "ROLLBACK"
    assert one.transaction_status == "I"


def test_savepoints_nest_and_revive_a_failed_transaction(one):
    one.execute("BEGIN")
    one.execute("INSERT INTO t VALUES (3, 3)")
    one.execute("SAVEPOINT a")
    one.execute("INSERT INTO t VALUES (4, 4)")
    one.execute("SAVEPOINT b")
    with pytest.raises(UniqueViolation):
        one.execute("INSERT INTO t VALUES (4, 4)")
    one.execute("ROLLBACK TO b")
    assert one.transaction_status == "T"
    one.execute("ROLLBACK TO a")
    with pytest.raises(InvalidSavepoint):
        one.execute("RELEASE b")
    one.execute("ROLLBACK TO a")
    one.execute("COMMIT")
    assert read(one, "SELECT id FROM t") == [(1,), (2,), (3,)]


def test_savepoint_outside_of_a_transaction(one):
    with pytest.raises(NoActiveTransaction):
        one.execute("SAVEPOINT a")


def test_begin_inside_and_commit_outside_only_warn(one):
    assert one.execute("COMMIT").notices[0].sqlstate == "25P01"
    one.execute("BEGIN")
    assert one.execute("BEGIN").notices[0].sqlstate == "25001"
    assert one.transaction_status == "T"


def test_read_only_transaction(one):
    one.execute("BEGIN READ ONLY")
    with pytest.raises(ReadOnlyTransaction):
        one.execute("DELETE FROM t")


def test_rows_inserted_and_updated_in_one_transaction_arrive_once(db, one):
    stream = db.subscribe("t", snapshot=False)
    one.execute("BEGIN")
    one.execute("INSERT INTO t VALUES (5, 1)")
    one.execute("UPDATE t SET v = 2 WHERE id = 5")
    one.execute("UPDATE t SET v = 3 WHERE id = 5")
    one.execute("COMMIT")
    (batch,) = stream.poll(1)
    assert batch.to_pylist() == [{"version": db.version, "weight": 1, "id": 5, "v": 3}]
    stream.close()


def test_tables_and_views_made_in_a_transaction_are_usable_inside(one, two):
    one.execute("BEGIN")
    one.execute("CREATE TABLE x (a INT)")
    one.execute("CREATE MATERIALIZED VIEW mx AS SELECT sum(a) AS s FROM x")
    one.execute("INSERT INTO x VALUES (1), (2)")
    assert read(one, "SELECT * FROM mx") == [(3,)]
    one.execute("COMMIT")
    two.execute("INSERT INTO x VALUES (10)")
    assert read(two, "SELECT * FROM mx") == [(13,)]


def test_drop_inside_a_transaction_waits_for_commit(one, two):
    one.execute("BEGIN")
    one.execute("DROP TABLE t CASCADE")
    assert read(two, "SELECT n FROM m") == [(2,)]
    one.execute("ROLLBACK")
    assert read(one, "SELECT n FROM m") == [(2,)]
    one.execute("BEGIN")
    one.execute("DROP TABLE t CASCADE")
    one.execute("COMMIT")
    assert two.execute("SHOW TABLES").fetchall() == []


def test_implicit_block_is_all_or_nothing(one, two):
    one.begin_implicit()
    one.execute("INSERT INTO t VALUES (5, 5)")
    with pytest.raises(UniqueViolation):
        one.execute("INSERT INTO t VALUES (5, 5)")
    one.end_implicit(commit=True)
    assert read(two, "SELECT count(*) FROM t") == [(2,)]
    one.begin_implicit()
    one.execute("INSERT INTO t VALUES (5, 5)")
    one.execute("INSERT INTO t VALUES (6, 6)")
    assert one.transaction_status == "I"
    one.end_implicit(commit=True)
    assert read(two, "SELECT count(*) FROM t") == [(4,)]


def test_set_local_ends_with_the_transaction(one):
    one.execute("BEGIN")
    one.execute("SET LOCAL timezone = 'Asia/Tokyo'")
    assert one.execute("SHOW timezone").fetchall() == [("Asia/Tokyo",)]
    one.execute("COMMIT")
    assert one.execute("SHOW timezone").fetchall() == [("UTC",)]
