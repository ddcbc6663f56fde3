"""SUBSCRIBE, cursors, AS OF."""

from __future__ import annotations

import threading

import pytest

from streamsql.core.errors import (
    DuplicateCursor,
    InvalidCursorName,
    NoActiveTransaction,
    QueryCanceled,
    SerializationFailure,
    UndefinedTable,
)


@pytest.fixture(autouse=True)
def table(db):
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT v, count(*) AS n FROM t GROUP BY v")
    db.execute("INSERT INTO t VALUES (1, 1), (2, 1)")


def changes(batches):
    return [tuple(r.values()) for b in batches for r in b.to_pylist()]


def test_subscribe_gives_snapshot_then_changes(db):
    with db.subscribe("m") as stream:
        first = db.version
        assert changes(stream.poll(1)) == [(first, 1, 1, 2)]
        db.execute("INSERT INTO t VALUES (3, 1), (4, 2)")
        assert sorted(changes(stream.poll(1))) == [
            (first + 1, -1, 1, 2), (first + 1, 1, 1, 3), (first + 1, 1, 2, 1)
        ]  # fmt: skip
        db.execute("CREATE TABLE other (a INT)")
        assert stream.poll(0) == []


def test_subscribe_as_of_and_up_to(db):
    start = db.version
    for i in range(3, 7):
        db.execute(f"INSERT INTO t VALUES ({i}, 9)")
    stream = db.subscribe("t", snapshot=False, as_of=start + 1, up_to=start + 3)
    assert changes(b for b in stream) == [(start + 2, 1, 4, 9), (start + 3, 1, 5, 9)]
    stream = db.subscribe("t", as_of=start, up_to=start + 1)
    found = changes(b for b in stream)
    assert [row[2] for row in found] == [1, 2, 3]
    with pytest.raises(SerializationFailure):
        db.engine.views[db.engine.catalog.get("public", "m").oid].log.floor = start + 2
        db.subscribe("m", as_of=start)


def test_subscribe_progress_reports_every_version(db):
    result = db.session().execute("SUBSCRIBE m WITH (PROGRESS) UP TO 1000")
    assert [c.name for c in result.columns] == ["version", "progressed", "weight", "v", "n"]
    batches = result.batches
    version = db.version
    assert changes([next(batches), next(batches)]) == [
        (version, False, 1, 1, 2),
        (version, True, None, None, None),
    ]
    db.execute("CREATE TABLE o (a INT)")
    assert changes([next(batches)]) == [(version + 1, True, None, None, None)]
    batches.close()


def test_subscribe_to_a_query_builds_and_frees_a_view(db):
    nodes = len(db.engine.circuit.nodes)
    with db.subscribe("SELECT max(v) AS top FROM t") as stream:
        assert [c[2:] for c in changes(stream.poll(1))] == [(1,)]
        db.execute("INSERT INTO t VALUES (7, 70)")
        assert [c[1:] for c in changes(stream.poll(1))] in (
            [(-1, 1), (1, 70)], [(1, 70), (-1, 1)]
        )  # fmt: skip
        assert len(db.engine.circuit.nodes) > nodes
    db.engine.call(lambda: None)
    assert len(db.engine.circuit.nodes) == nodes
    assert len(db.engine.views) == 1


def test_subscribe_to_a_plain_view(db):
    db.execute("CREATE VIEW pv AS SELECT v FROM t")
    with db.subscribe("pv") as stream:
        assert sorted(c[2] for c in changes(stream.poll(1))) == [1, 1]


def test_dropping_the_relation_ends_the_stream(db):
    stream = db.subscribe("m", snapshot=False)
    db.execute("DROP MATERIALIZED VIEW m")
    with pytest.raises(UndefinedTable):
        stream.poll(1)


def test_cancel_ends_a_streaming_result(db):
    session = db.session()
    batches = session.execute("SUBSCRIBE m").batches
    assert next(batches).num_rows == 1
    timer = threading.Timer(0.05, session.cancel)
    timer.start()
    with pytest.raises(QueryCanceled):
        for _ in batches:
            pass
    assert session.execute("SELECT 1").fetchall() == [(1,)]


def test_iteration_ends_when_another_thread_closes(db):
    stream = db.subscribe("m")
    seen = threading.Semaphore(0)

    def read():
        for _ in stream:
            seen.release()

    thread = threading.Thread(target=read)
    thread.start()
    db.execute("INSERT INTO t VALUES (9, 9)")
    assert seen.acquire(timeout=5) and seen.acquire(timeout=5)
    stream.close()
    thread.join(5)
    assert not thread.is_alive()


def test_read_as_of_an_older_version(db, rows, fails):
    version = db.version
    db.execute("UPDATE t SET v = 5 WHERE id = 1")
    db.execute("DELETE FROM t WHERE id = 2")
    assert rows(f"SELECT * FROM t FOR SYSTEM_TIME AS OF {version}") == [(1, 1), (2, 1)]
    assert rows(f"SELECT * FROM m FOR SYSTEM_TIME AS OF {version + 1}") == [(1, 1), (5, 1)]
    assert rows("SELECT * FROM t") == [(1, 5)]
    fails("SELECT * FROM t FOR SYSTEM_TIME AS OF 99999", "22023")


# --- cursors ------------------------------------------------------------------------------------
@pytest.fixture
def session(db):
    return db.session()


def test_cursor_moves_both_ways(session):
    session.execute("BEGIN")
    session.execute("DECLARE c SCROLL CURSOR FOR SELECT g FROM generate_series(1, 5) AS s(g)")

    def fetch(what):
        return [r[0] for r in session.execute(f"FETCH {what} FROM c").fetchall()]

    assert fetch("2") == [1, 2]
    assert fetch("NEXT") == [3]
    assert fetch("BACKWARD 2") == [2, 1]
    assert fetch("PRIOR") == []
    assert fetch("ALL") == [1, 2, 3, 4, 5]
    assert fetch("1") == []
    assert session.execute("MOVE BACKWARD 10 IN c").tag == "MOVE 5"
    assert fetch("FORWARD ALL") == [1, 2, 3, 4, 5]
    session.execute("CLOSE c")
    with pytest.raises(InvalidCursorName):
        session.execute("FETCH 1 FROM c")


def test_cursor_sees_the_version_it_was_declared_at(db, session):
    session.execute("BEGIN")
    session.execute("DECLARE c CURSOR FOR SELECT id FROM t ORDER BY id")
    db.execute("DELETE FROM t")
    assert session.execute("FETCH ALL FROM c").fetchall() == [(1,), (2,)]


def test_cursors_end_with_the_transaction_unless_held(session):
    with pytest.raises(NoActiveTransaction):
        session.execute("DECLARE c CURSOR FOR SELECT 1")
    session.execute("DECLARE held CURSOR WITH HOLD FOR SELECT 1")
    session.execute("BEGIN")
    session.execute("DECLARE c CURSOR FOR SELECT 1")
    with pytest.raises(DuplicateCursor):
        session.execute("DECLARE c CURSOR FOR SELECT 1")
    session.execute("ROLLBACK")
    with pytest.raises(InvalidCursorName):
        session.execute("CLOSE c")
    assert session.execute("FETCH ALL FROM held").fetchall() == [(1,)]
    assert session.execute("CLOSE ALL").tag == "CLOSE CURSOR ALL"


def test_subscribe_cursor_waits_at_most_the_timeout(db, session):
    session.execute("BEGIN")
    session.execute("DECLARE c CURSOR FOR SUBSCRIBE m")
    assert session.execute("FETCH 1 FROM c").fetchall()[0][1:] == (1, 1, 2)
    assert session.execute("FETCH ALL FROM c WITH (timeout = '10ms')").fetchall() == []
    db.execute("INSERT INTO t VALUES (5, 1)")
    found = session.execute("FETCH ALL FROM c WITH (timeout = '10ms')").fetchall()
    assert sorted(r[1:] for r in found) == [(-1, 1, 2), (1, 1, 3)]
    session.execute("COMMIT")
