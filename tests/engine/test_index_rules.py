"""Indexes and constraints inside of transactions; expressions of indexes that fail for a row."""

from __future__ import annotations

import pytest

from streamsql.core.errors import StreamSqlError


def uses(rows, sql: str) -> bool:
    """Whether a query is answered by an index of t."""
    return any("ti" in line for (line,) in rows(f"EXPLAIN {sql}"))


def test_a_dropped_index_is_gone_for_its_own_transaction(db, rows, fails):
    db.execute("CREATE TABLE t (a INT, b INT); CREATE UNIQUE INDEX ti ON t (a)")
    db.execute("INSERT INTO t SELECT i, i FROM generate_series(1, 50) x(i)")
    db.execute("BEGIN; DROP INDEX ti; INSERT INTO t VALUES (7, 70)")
    assert rows("SELECT b FROM t WHERE a = 7") == [(7,), (70,)]
    lookups = [i.lookups for t in db.engine.tables.values() for i in t.indexes.values()]
    assert lookups == [0]
    with pytest.raises(StreamSqlError):  # for others it is there
        db.session().execute("INSERT INTO t VALUES (8, 80)")
    db.execute("ROLLBACK")
    assert rows("SELECT b FROM t WHERE a = 7") == [(7,)]
    db.execute("BEGIN; DROP INDEX ti; INSERT INTO t VALUES (7, 70); COMMIT")
    assert rows("SELECT b FROM t WHERE a = 7") == [(7,), (70,)]
    fails("CREATE UNIQUE INDEX ti ON t (a)", "23505")


def test_what_a_transaction_makes_unique_it_keeps(db, rows, fails):
    db.execute("CREATE TABLE t (a INT, b INT UNIQUE); INSERT INTO t VALUES (1, 1)")
    db.execute("BEGIN; CREATE UNIQUE INDEX ti ON t (a)")
    fails("INSERT INTO t VALUES (1, 2)", "23505")
    db.execute("ROLLBACK; BEGIN; ALTER TABLE t ADD UNIQUE (a)")
    fails("INSERT INTO t VALUES (1, 2)", "23505")
    db.execute("ROLLBACK; BEGIN; ALTER TABLE t DROP CONSTRAINT t_b_key")
    db.execute("INSERT INTO t VALUES (2, 1); COMMIT")
    assert rows("SELECT * FROM t") == [(1, 1), (2, 1)]
    db.execute("BEGIN; ALTER TABLE t ALTER a SET NOT NULL; INSERT INTO t VALUES (3, 3); COMMIT")
    fails("INSERT INTO t VALUES (NULL, 3)", "23502")
    db.execute("BEGIN; ALTER TABLE t ADD CHECK (a < 9); INSERT INTO t VALUES (4, 4); COMMIT")
    fails("INSERT INTO t VALUES (9, 3)", "23514")


def test_a_row_for_which_an_index_expression_fails_is_refused(db, rows, fails):
    db.execute("CREATE TABLE t (a INT PRIMARY KEY, b INT); INSERT INTO t VALUES (1, 0)")
    fails("CREATE INDEX ti ON t ((10 / b))", "22012")
    db.execute("DELETE FROM t; CREATE INDEX ti ON t ((10 / b)); INSERT INTO t VALUES (1, 2)")
    fails("INSERT INTO t VALUES (2, 5), (3, 0)", "22012")
    fails("UPDATE t SET b = 0", "22012")
    fails("INSERT INTO t VALUES (1, 1) ON CONFLICT (a) DO UPDATE SET b = 0", "22012")
    db.execute("BEGIN")
    fails("INSERT INTO t VALUES (3, 0)", "22012")
    db.execute("ROLLBACK; BEGIN; DROP INDEX ti; INSERT INTO t VALUES (3, 0); ROLLBACK")
    assert rows("SELECT a FROM t WHERE 10 / b = 5") == [(1,)]
    assert rows("SELECT * FROM t") == [(1, 2)]


def test_a_view_with_a_failing_row_is_not_looked_up_by_that_index(db, rows, fails):
    db.execute("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 2), (2, 5)")
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT a, b FROM t; CREATE INDEX ti ON m ((10 / b))")
    assert rows("SELECT a FROM m WHERE 10 / b = 5") == [(1,)]
    assert uses(rows, "SELECT a FROM m WHERE 10 / b = 5")
    db.execute("INSERT INTO t VALUES (3, 0)")
    fails("SELECT a FROM m WHERE 10 / b = 5", "22012")  # as without the index
    assert not uses(rows, "SELECT a FROM m WHERE 10 / b = 5")
    db.execute("UPDATE t SET b = 1 WHERE a = 3")
    assert rows("SELECT a FROM m WHERE 10 / b = 10") == [(3,)]
    assert uses(rows, "SELECT a FROM m WHERE 10 / b = 5")
    index = next(i for v in db.engine.views.values() for i in v.indexes.values())
    assert not index.failing
