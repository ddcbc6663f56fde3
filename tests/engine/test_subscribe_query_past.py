"""SUBSCRIBE (query) AS OF an older version: through the versions it holds what the query gave."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import streamsql
from streamsql.core.errors import StreamSqlError
from streamsql.engine.database import Database

QUERIES = [
    "SELECT a + 1 AS n FROM t WHERE b > 0",
    "SELECT b, sum(a) AS n, avg(a * 0.1::float) AS f FROM t GROUP BY b",
    "SELECT t.a, m.n FROM t LEFT JOIN m ON t.a = m.b WHERE t.b IS NOT NULL",
    "SELECT a, row_number() OVER (PARTITION BY b ORDER BY a) AS n FROM t",
    "SELECT a, (SELECT max(x.a) FROM t x WHERE x.b < t.b) AS n FROM t",
    "SELECT b FROM t EXCEPT SELECT b FROM m WHERE n > 2",
    "SELECT count(*) AS n, max(p.n) AS most FROM p",
]


def setup(db: Database) -> None:
    db.execute("CREATE TABLE t (a INT, b INT) WITH (retention = '1 hour')")
    grouped = "AS SELECT b, count(*) AS n FROM t GROUP BY b"
    db.execute(f"CREATE MATERIALIZED VIEW m WITH (retention = '1 hour') {grouped}")
    db.execute(f"CREATE VIEW p {grouped}")


def events_of(db: Database, sql: str) -> list[tuple[object, ...]]:
    session = db.session()
    try:
        return [tuple(r.values()) for b in session.execute(sql).batches for r in b.to_pylist()]
    finally:
        session.close()


@pytest.mark.parametrize("query", QUERIES)
def test_random_history(query: str, tmp_path) -> None:
    rng = random.Random(query)
    db = streamsql.connect(str(tmp_path))
    setup(db)
    stored: dict[int, Counter[str]] = {}
    for step in range(10):
        a, b = rng.randint(1, 5), rng.choice([0, 1, 2, "NULL"])
        kind = rng.choice((
            "INSERT INTO t VALUES ({a}, {b}), ({a}, {b})", "DELETE FROM t WHERE a = {a}",
            "UPDATE t SET b = {b} WHERE a < {a}", "INSERT INTO t VALUES ({b}, {a})",
        ))  # fmt: skip
        db.execute(kind.format(a=a, b=b))
        if step == 6:
            db.close()
            db = streamsql.connect(str(tmp_path))
        stored[db.version] = Counter(str(r) for r in db.execute(query).fetchall())
    versions = sorted(stored)
    views = len(db.engine.views)
    for first in (versions[0], versions[len(versions) // 2], versions[-2]):
        for snapshot in (True, False):
            sql = f"SUBSCRIBE ({query}) WITH (SNAPSHOT = {snapshot}) AS OF {first}"
            events = events_of(db, f"{sql} UP TO {versions[-1]}")
            held = Counter() if snapshot else Counter(stored[first])
            assert [e[0] for e in events] == sorted(e[0] for e in events)
            for version in (v for v in versions if v >= first):
                while events and events[0][0] <= version:
                    _, weight, *row = events.pop(0)
                    held[str(tuple(row))] += weight
                assert all(n >= 0 for n in held.values())
                assert +held == stored[version], f"{sql} at {version}"
            assert not events
    db.engine.call(lambda: None)  # the streams' views are dropped by then
    assert len(db.engine.views) == views
    db.close()


@pytest.fixture
def db():
    with Database() as database:
        setup(database)
        database.execute("INSERT INTO t VALUES (1, 1)")
        yield database


def test_it_goes_on_with_what_comes(db: Database) -> None:
    first = db.version
    db.execute("INSERT INTO t VALUES (2, 1)")
    session = db.session()
    session.execute("BEGIN")
    session.execute(f"DECLARE c CURSOR FOR SUBSCRIBE (SELECT sum(a) AS n FROM t) AS OF {first}")
    past = session.execute("FETCH 3 FROM c WITH (timeout = '1s')").fetchall()
    assert past == [(first, 1, 1), (first + 1, -1, 1), (first + 1, 1, 3)]
    db.execute("INSERT INTO t VALUES (4, 1)")
    more = session.execute("FETCH 2 FROM c WITH (timeout = '1s')").fetchall()
    assert more == [(first + 2, -1, 3), (first + 2, 1, 7)]
    session.execute("ROLLBACK")
    session.close()


def test_progress_limits_and_plain_views(db: Database) -> None:
    first = db.version
    db.execute("CREATE TABLE other (x INT); INSERT INTO t VALUES (1, 2), (1, 2)")
    last = db.version
    found = events_of(db, f"SUBSCRIBE (SELECT b FROM t) WITH (PROGRESS) AS OF {first} UP TO {last}")
    assert found == [(first, False, 1, 1), (last, False, 2, 2), (last, True, None, None)]
    early = events_of(db, f"SUBSCRIBE (SELECT b FROM t) AS OF {first} UP TO {last - 1}")
    assert early == [(first, 1, 1)]
    assert events_of(db, f"SUBSCRIBE p AS OF {first} UP TO {last}") == [
        (first, 1, 1, 1), (last, 1, 2, 2),
    ]  # fmt: skip
    assert events_of(db, f"SUBSCRIBE (SELECT b FROM t) AS OF {last} UP TO {last}") == [
        (last, 1, 1), (last, 1, 2), (last, 1, 2),
    ]  # fmt: skip


def test_what_is_not_retained(db: Database) -> None:
    first = db.version
    db.execute("CREATE MATERIALIZED VIEW young AS SELECT b FROM t")
    views = len(db.engine.views)
    with pytest.raises(StreamSqlError) as caught:
        events_of(
            db,
            f"SUBSCRIBE (SELECT b FROM young JOIN t USING (b)) AS OF {first - 1} UP TO {first + 1}",
        )
    assert caught.value.sqlstate == "40001"
    for clauses in (f"AS OF {db.version + 5}", f"AS OF {db.version} UP TO {db.version - 1}"):
        with pytest.raises(StreamSqlError) as caught:
            events_of(db, f"SUBSCRIBE (SELECT b FROM t) {clauses}")
        assert caught.value.sqlstate == "22023"
    assert len(db.engine.views) == views


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT a FROM t WHERE now() > '2020-01-01'", "reads the clock"),
        ("SELECT a, now() FROM t", "reads the clock"),
        ("SELECT view FROM streamsql.view_errors", 'reads the system relation "view_errors"'),
        ("SELECT count(*) FROM TUMBLE(e, ts, INTERVAL '1 minute') GROUP BY window_end",
         "judges by a watermark which rows are late"),
        ("SELECT e.k FROM e JOIN m FOR SYSTEM_TIME AS OF PROCTIME() ON m.b = e.k",
         "depends on how far its inputs were when rows came"),
    ],
)  # fmt: skip
def test_queries_that_begin_now(db: Database, query: str, why: str) -> None:
    db.execute("CREATE TABLE e (k INT, ts TIMESTAMP, WATERMARK FOR ts AS ts)")
    first = db.version
    db.execute("INSERT INTO e VALUES (1, '2024-01-01')")
    views = len(db.engine.views)
    with pytest.raises(StreamSqlError) as caught:
        events_of(db, f"SUBSCRIBE ({query}) AS OF {first}")
    message = f"a SUBSCRIBE to a query that {why} begins at the newest version"
    assert (caught.value.sqlstate, caught.value.message) == ("0A000", message)
    assert "Make a materialized view of the query" in (caught.value.hint or "")
    assert len(db.engine.views) == views
    assert all(e[0] == db.version for e in events_of(db, f"SUBSCRIBE ({query}) UP TO {db.version}"))
