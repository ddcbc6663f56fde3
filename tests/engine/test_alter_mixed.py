"""ALTER where several kinds of dependents stand on one table: indexes, subscriptions, views."""

from __future__ import annotations

import pytest

from streamsql.core.errors import FeatureNotSupported, SerializationFailure
from tests.engine.test_recovery import abandon, opened
from tests.state.faulty_filesystem import MemoryFileSystem

SETUP = (
    "CREATE TABLE t (id INT PRIMARY KEY, g INT NOT NULL, x INT, extra INT)",
    "CREATE INDEX by_g ON t (g DESC, x)",
    "CREATE SUBSCRIPTION changes FROM t WITH (retention = '1 day')",
    "CREATE MATERIALIZED VIEW v AS SELECT id, g, x FROM t",
    "CREATE INDEX by_v ON v (g)",
    "CREATE SUBSCRIPTION of_v FROM v WITH (retention = '1 day')",
    "INSERT INTO t VALUES (1, 1, 10, 0), (2, 2, 20, 0)",
)


@pytest.fixture
def filesystem():
    return MemoryFileSystem()


def changed(db, name):
    db.execute(f"DECLARE c SUBSCRIPTION CURSOR FOR {name} SINCE begin()")
    found = [r[1:] for r in db.execute("FETCH ALL FROM c").fetchall()]
    db.execute("CLOSE c")
    return found


def test_not_null_goes_below_indexes_and_subscriptions(filesystem):
    db = opened(filesystem)
    for statement in SETUP:
        db.execute(statement)
    db.execute("ALTER TABLE t ALTER COLUMN g DROP NOT NULL")
    db.execute("INSERT INTO t VALUES (3, NULL, 30, 0)")

    def check():
        for relation in ("t", "v"):
            found = db.execute(f"SELECT id FROM {relation} WHERE g IS NULL").fetchall()
            assert found == [(3,)]
            assert db.execute(f"SELECT id FROM {relation} WHERE g = 2").fetchall() == [(2,)]
        assert changed(db, "of_v")[-1] == (1, 3, None, 30)
        assert changed(db, "changes")[-1] == (1, 3, None, 30, 0)
        assert db.execute("VERIFY MATERIALIZED VIEW v").fetchall() == []

    check()
    abandon(db)
    filesystem.crash()
    db = opened(filesystem)
    check()
    db.close()


def test_a_column_is_dropped_below_a_subscription(filesystem):
    db = opened(filesystem)
    for statement in SETUP:
        db.execute(statement)
    db.execute("ALTER TABLE t DROP COLUMN extra")
    db.execute("INSERT INTO t VALUES (3, 3, 30)")
    assert changed(db, "changes")[-1] == (1, 3, 3, 30)
    abandon(db)
    filesystem.crash()
    db = opened(filesystem)
    assert changed(db, "changes")[-1] == (1, 3, 3, 30)
    db.execute("DELETE FROM t WHERE id = 3")
    assert changed(db, "changes")[-1] == (-1, 3, 3, 30)
    db.close()


@pytest.fixture
def db(filesystem):
    made = opened(filesystem)
    made.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
    made.execute("INSERT INTO t VALUES (1, 10, 100), (2, 20, 200)")
    yield made
    made.close()


@pytest.mark.parametrize(
    "write",
    [
        "INSERT INTO t VALUES (3, 30, 300)",
        "UPDATE t SET b = 0 WHERE id = 1",
        "DELETE FROM t WHERE id = 1",
    ],
)
@pytest.mark.parametrize(
    "then",
    [
        "COMMIT",
        "INSERT INTO t VALUES (4, 40, 400)",
        "DELETE FROM t WHERE id = 2",
        "SELECT * FROM t",
        "SELECT * FROM t WHERE id = 2",
    ],
)
def test_a_transaction_that_an_alter_overtakes_changes_nothing(db, write, then):
    """Also where the columns that came have the types of those that went."""
    session = db.session()
    session.execute("BEGIN")
    session.execute(write)
    db.execute("ALTER TABLE t DROP COLUMN a")
    db.execute("ALTER TABLE t ADD COLUMN c INT DEFAULT 7")
    with pytest.raises(SerializationFailure):
        session.execute(then)
    session.execute("ROLLBACK")
    session.close()
    rows = db.execute("SELECT id, b, c FROM t ORDER BY id").fetchall()
    assert rows == [(1, 100, 7), (2, 200, 7)]


@pytest.mark.parametrize(
    ("statement", "where"),
    [
        ("ALTER TABLE t ALTER COLUMN a SET DEFAULT (SELECT 1)", "DEFAULT expression"),
        ("ALTER TABLE t ADD COLUMN c INT DEFAULT (SELECT 1)", "DEFAULT expression"),
        ("CREATE TABLE u (a INT DEFAULT (SELECT 1))", "DEFAULT expression"),
        ("CREATE TABLE u (a INT AS ((SELECT 1)))", "column generation expression"),
        ("CREATE INDEX ON t ((a + (SELECT 1)))", "index expression"),
    ],
)
def test_no_subquery_in_what_is_computed_for_a_row(db, statement, where):
    with pytest.raises(FeatureNotSupported, match=f"cannot use subquery in {where}"):
        db.execute(statement)
    db.execute("INSERT INTO t VALUES (3, 30, 300)")
