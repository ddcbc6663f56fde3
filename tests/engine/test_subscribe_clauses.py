"""SUBSCRIBE: all clauses together, over a history with a version that changes nothing."""

from __future__ import annotations

import itertools

import pytest

import streamsql
from streamsql.core.errors import StreamSqlError

HISTORY = {  # version after the start: what it does to the view
    0: {(1, 1): 1},
    1: {(1, 1): -1, (1, 2): 1},
    2: {},
    3: {(2, 1): 1},
}


@pytest.fixture(scope="module")
def history():
    with streamsql.connect() as db:
        db.execute("CREATE TABLE t (a INT, b INT)")
        db.execute("CREATE MATERIALIZED VIEW m AS SELECT a, count(*) AS n FROM t GROUP BY a")
        db.execute("INSERT INTO t VALUES (1, 1)")
        start = db.version
        db.execute("INSERT INTO t VALUES (1, 2)")
        db.execute("CREATE TABLE other (q INT)")
        db.execute("INSERT INTO t VALUES (2, 2)")
        yield db, start


def rows_of(db, sql):
    session = db.session()
    try:
        return [tuple(r.values()) for b in session.execute(sql).batches for r in b.to_pylist()]
    finally:
        session.close()


@pytest.mark.parametrize(
    ("first", "last", "snapshot", "progress"),
    [
        (first, last, snapshot, progress)
        for first, last in itertools.combinations_with_replacement(range(4), 2)
        for snapshot in (True, False)
        for progress in (True, False)
    ],
)
def test_every_combination(history, first, last, snapshot, progress):
    db, start = history
    options = [f"SNAPSHOT = {snapshot}", *(["PROGRESS"] if progress else [])]
    found = rows_of(
        db,
        f"SUBSCRIBE m WITH ({', '.join(options)}) AS OF {start + first} UP TO {start + last}",
    )
    marks = [r[0] for r in found if progress and r[1]]
    changes = [(r[0], *r[2:]) if progress else r for r in found if not progress or not r[1]]
    want: list[tuple[int, int, int, int]] = []
    if snapshot:
        present: dict[tuple[int, int], int] = {}
        for version in range(first + 1):
            for row, weight in HISTORY[version].items():
                present[row] = present.get(row, 0) + weight
        want += [(start + first, w, *row) for row, w in present.items() if w]
    for version in range(first + 1, last + 1):
        want += [(start + version, w, *row) for row, w in HISTORY[version].items()]
    assert sorted(changes) == sorted(want)
    assert [c[0] for c in changes] == sorted(c[0] for c in changes)
    assert marks == sorted(set(marks))
    if progress:  # the promise for UP TO ends the stream, also where that version changed nothing
        assert marks[-1] == start + last
        assert found[-1][1]


@pytest.mark.parametrize(
    ("clauses", "sqlstate", "message"),
    [
        ("AS OF {3} UP TO {2}", "22023", "UP TO version {2} is before version {3}, where the"
         " changes begin"),
        ("UP TO {1}", "22023", "UP TO version {1} is before version {3}, where the changes begin"),
        ("AS OF 9999", "22023", "version 9999 does not exist yet"),
        ("AS OF -1", "40001", "version -1 is no longer retained"),
        ("WITH (PROGRESS = maybe)", "22023", "progress requires a Boolean value"),
        ("WITH (SPEED = 1)", "22023", 'unrecognized SUBSCRIBE option "speed"'),
    ],
)  # fmt: skip
def test_wrong_clauses(history, clauses, sqlstate, message):
    db, start = history
    names = [start + i for i in range(4)]
    with pytest.raises(StreamSqlError) as caught:
        rows_of(db, f"SUBSCRIBE m {clauses.format(*names)}")
    assert (caught.value.sqlstate, caught.value.message) == (sqlstate, message.format(*names))


@pytest.fixture
def windows(db):
    db.execute("""
        CREATE TABLE e (k TEXT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;
        CREATE MATERIALIZED VIEW w AS SELECT window_end, k, count(*) AS n
            FROM TUMBLE(e, ts, INTERVAL '1 minute') GROUP BY window_end, k EMIT ON WINDOW CLOSE
    """)


def test_windows_come_in_their_order(db, windows):
    session = db.session()
    session.execute("CREATE SUBSCRIPTION s FROM w; DECLARE c SUBSCRIPTION CURSOR FOR s")
    session.execute("BEGIN; DECLARE d CURSOR FOR SUBSCRIBE w WITH (SNAPSHOT = false)")
    db.execute("""
        INSERT INTO e SELECT chr(97 + (g * 7) % 5), TIMESTAMP '2024-01-01' + g * INTERVAL '1 second'
        FROM generate_series(0, 599) g(g) ORDER BY 2
    """)
    want = sorted(db.execute("SELECT window_end, k FROM w").fetchall())
    assert len(want) == 45
    for cursor in ("c", "d"):
        found = session.execute(f"FETCH 100 FROM {cursor} WITH (timeout = '10ms')").fetchall()
        assert [r[2:4] for r in found] == want
    stream = rows_of(db, f"SUBSCRIBE w UP TO {db.version}")
    assert [r[2:4] for r in stream] == want


def test_cursor_over_subscribe_gives_portions_and_keeps_the_rest(db, windows):
    session = db.session()
    session.execute("BEGIN; DECLARE c CURSOR FOR SUBSCRIBE e WITH (PROGRESS)")
    assert session.execute("FETCH 1 FROM c").fetchall()[0][1] is True
    db.execute("INSERT INTO e SELECT 'a', TIMESTAMP '2024-01-01' FROM generate_series(1, 5)")
    first = session.execute("FETCH 2 FROM c WITH (timeout = '1s')").fetchall()
    rest = session.execute("FETCH 10 FROM c WITH (timeout = '10ms')").fetchall()
    assert [r[1] for r in first + rest] == [False] * 5 + [True]
    assert session.execute("MOVE 1 IN c WITH (timeout = '1ms')").tag == "MOVE 0"
    session.execute("ROLLBACK")
    with pytest.raises(StreamSqlError, match='cursor "c" does not exist'):
        session.execute("FETCH 1 FROM c")


def test_versions_can_be_parameters_and_times(db):
    db.execute("CREATE TABLE x (a INT); INSERT INTO x VALUES (1)")
    first = db.version
    db.execute("INSERT INTO x VALUES (2)")
    session = db.session()

    def changes(clauses, *values):
        return session.execute(f"SUBSCRIBE x {clauses}", list(values)).fetchall()

    want = [(first, 1, 1), (first + 1, 1, 2)]
    assert changes("AS OF $1 UP TO $2", first, first + 1) == want
    assert changes(f"AS OF '{first}' UP TO {first} + 1") == want
    assert changes("AS OF now() UP TO $1", db.version) == [(first + 1, 1, 1), (first + 1, 1, 2)]
    [statement] = session.parse("SUBSCRIBE x AS OF $1")
    assert [str(t) for t in session.prepare(statement).parameter_types] == ["bigint"]
    session.execute("BEGIN")
    session.execute("DECLARE c CURSOR FOR SUBSCRIBE x AS OF $1 UP TO $2", [first, first + 1])
    assert session.execute("FETCH ALL FROM c").fetchall() == want
    session.execute("ROLLBACK")
    for clauses, sqlstate in (
        ("AS OF true", "42804"),
        ("AS OF '2999-01-01'", "22023"),
        ("AS OF NULL", "22023"),
        (f"AS OF {db.version} + 9", "22023"),
        ("AS OF a", "42601"),
    ):
        with pytest.raises(StreamSqlError) as caught:
            changes(clauses)
        assert caught.value.sqlstate == sqlstate
