"""CREATE SUBSCRIPTION: changes that are kept, and cursors that go on where a client left off."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import streamsql
from streamsql.core.clock import ManualClock
from streamsql.core.errors import DiskError, StreamSqlError
from streamsql.engine.storage import change_store
from tests.state.faulty_filesystem import MemoryFileSystem

SETUP = """
    CREATE TABLE t (id INT PRIMARY KEY, v INT);
    CREATE MATERIALIZED VIEW m AS SELECT v, count(*) AS n FROM t GROUP BY v;
    INSERT INTO t VALUES (1, 1), (2, 1);
    CREATE SUBSCRIPTION s FROM m WITH (retention = '1 day')
"""


@pytest.fixture(autouse=True)
def setup(db):
    db.execute(SETUP)


def fetch(session, text="ALL FROM c"):
    return session.execute(f"FETCH {text}").fetchall()


def test_cursor_gives_what_comes_after_it(db):
    session = db.session()
    session.execute("DECLARE c SUBSCRIPTION CURSOR FOR s")
    assert fetch(session) == fetch(session, "NEXT FROM c") == []
    db.execute("INSERT INTO t VALUES (3, 1)")
    first = db.version
    db.execute("INSERT INTO t VALUES (4, 2)")
    assert fetch(session, "1 FROM c") == [(first, -1, 1, 2)]
    assert fetch(session) == [(first, 1, 1, 3), (first + 1, 1, 2, 1)]
    result = session.execute("FETCH 1 FROM c")
    assert [c.name for c in result.columns] == ["version", "weight", "v", "n"]
    session.execute("CLOSE c")


def test_full_begins_with_all_rows(db):
    session = db.session()
    session.execute("DECLARE c SUBSCRIPTION CURSOR FOR s FULL")
    version = db.version
    db.execute("DELETE FROM t WHERE id = 1")
    assert fetch(session, "1 FROM c") == [(version, 1, 1, 2)]
    assert sorted(fetch(session)) == [(version + 1, -1, 1, 2), (version + 1, 1, 1, 1)]


def test_another_session_goes_on_from_the_version_it_has_seen(db):
    for i in range(5):
        db.execute(f"INSERT INTO t VALUES ({10 + i}, {10 + i})")
    last = db.version
    session = db.session()
    session.execute("DECLARE a SUBSCRIPTION CURSOR FOR s SINCE begin()")
    everything = fetch(session, "ALL FROM a")
    assert [r[0] for r in everything] == list(range(last - 4, last + 1))
    session.close()
    session = db.session()
    session.execute(f"DECLARE c SUBSCRIPTION CURSOR FOR s SINCE {everything[2][0]}")
    assert fetch(session) == everything[3:]
    session.execute(f"BEGIN; DECLARE d SUBSCRIPTION CURSOR FOR s SINCE {last}; ROLLBACK")
    assert fetch(session, "ALL FROM d") == []
    assert session.execute("SHOW SUBSCRIPTION CURSORS").fetchall() == [
        (session.backend_pid, "streamsql", "c", "s", last),
        (session.backend_pid, "streamsql", "d", "s", last),
    ]


def test_since_a_time_and_retention(rows):
    clock = ManualClock(1_700_000_000_000_000)
    with streamsql.connect(clock=clock) as db:
        db.execute("CREATE TABLE t (a INT); CREATE SUBSCRIPTION s FROM t WITH (retention = '3 h')")
        for i in range(4):
            clock.advance_to(clock.now_us() + 3_600_000_000)
            db.execute(f"INSERT INTO t VALUES ({i})")

        def values(since, dialect="streamsql"):
            session = db.session()
            session.execute(f"SET dialect = '{dialect}'")
            session.execute(f"DECLARE c SUBSCRIPTION CURSOR FOR s SINCE {since}")
            return [r[2] for r in fetch(session)]

        assert values("begin()") == [0, 1, 2, 3]
        assert values("'2023-11-15 00:13:20+00'") == [1, 2, 3]
        assert values("timestamptz '2023-11-15 00:13:21+00'") == [2, 3]
        assert values(1_700_010_800_000, "risingwave") == [2, 3]
        assert values("now()") == values("proctime()") == []
        clock.advance_to(clock.now_us() + 2 * 3_600_000_000)
        session = db.session()
        session.execute("DECLARE c SUBSCRIPTION CURSOR FOR s SINCE begin()")
        assert [r[2] for r in fetch(session)] == [2, 3]
        with pytest.raises(StreamSqlError, match="before what the subscription retains"):
            values("'2023-11-14 23:00:00+00'")
        with pytest.raises(StreamSqlError, match="in the future"):
            values("'2033-01-01'")


def test_fetch_waits_for_the_timeout(db):
    session = db.session()
    session.execute("DECLARE c SUBSCRIPTION CURSOR FOR s")
    timer = threading.Timer(0.05, lambda: db.session().execute("INSERT INTO t VALUES (7, 7)"))
    timer.start()
    assert [r[1:] for r in fetch(session, "1 FROM c WITH (timeout = '5s')")] == [(1, 7, 1)]
    assert fetch(session, "ALL FROM c WITH (timeout = '10ms')") == []
    session.execute("SET statement_timeout = '30ms'")
    with pytest.raises(StreamSqlError, match="statement timeout"):
        fetch(session, "1 FROM c WITH (timeout = '5s')")


def test_show_and_system_relation(db, rows):
    [(name, source, _)] = rows("SHOW SUBSCRIPTIONS")
    assert (name, source) == ("s", "m")
    assert rows("SELECT retention::TEXT FROM streamsql.subscriptions") == [("1 day",)]
    assert rows("SHOW CREATE SUBSCRIPTION s") == [
        ("public.s", "CREATE SUBSCRIPTION s FROM m WITH (retention = '1 day')")
    ]
    db.execute("INSERT INTO t VALUES (3, 3)")
    [(name, relation, oldest, newest)] = rows(
        "SELECT name, relation, oldest_version, newest_version FROM streamsql.subscriptions"
    )
    assert (name, relation, oldest, newest) == ("s", "m", db.version - 1, db.version)


def test_dropping(db, fails):
    session = db.session()
    session.execute("DECLARE c SUBSCRIPTION CURSOR FOR s")
    error = fails("DROP MATERIALIZED VIEW m", "2BP01")
    assert error.detail == "subscription s depends on materialized view m"
    db.execute("DROP SUBSCRIPTION s")
    with pytest.raises(StreamSqlError, match='subscription "s" was dropped'):
        fetch(session)
    assert db.execute("SHOW SUBSCRIPTIONS").fetchall() == []
    assert not db.engine.hub.watched(db.engine.catalog.get("public", "m").oid)
    db.execute("CREATE SUBSCRIPTION s2 FROM m; DROP MATERIALIZED VIEW m CASCADE")
    assert db.execute("SHOW SUBSCRIPTIONS").fetchall() == []


@pytest.mark.parametrize(
    ("sql", "sqlstate", "message"),
    [
        ("CREATE SUBSCRIPTION s FROM m", "42P07", 'relation "s" already exists'),
        ("CREATE SUBSCRIPTION x FROM nope", "42P01", 'relation "nope" does not exist'),
        ("CREATE SUBSCRIPTION x FROM p", "42809",
         'cannot create a subscription from view "p"'),
        ("CREATE TEMP TABLE tt (a INT); CREATE SUBSCRIPTION x FROM tt", "0A000",
         'cannot create a subscription from temporary table "tt"'),
        ("CREATE SUBSCRIPTION x FROM m WITH (retention = '5')", "22023",
         'invalid value for "retention": "5"'),
        ("CREATE SUBSCRIPTION x FROM m WITH (other = '5')", "0A000",
         'option "other" of a subscription is not supported'),
        ("SELECT * FROM s", "42809", 'cannot open relation "s"'),
        ("DROP SUBSCRIPTION nope", "42704", 'subscription "nope" does not exist'),
        ("DROP SUBSCRIPTION m", "42809", '"m" is not a subscription'),
        ("DECLARE c SUBSCRIPTION CURSOR FOR m", "42809", '"m" is not a subscription'),
        ("DECLARE c SUBSCRIPTION CURSOR FOR s SINCE 99999", "22023",
         "version 99999 does not exist yet"),
        ("DECLARE c SUBSCRIPTION CURSOR FOR s SINCE 1", "40001",
         "version 1 is no longer retained"),
        ("DECLARE c SUBSCRIPTION CURSOR FOR s SINCE 1 + 1", "22023", "SINCE can not be 1 + 1"),
        ("DECLARE c SUBSCRIPTION CURSOR FOR s; FETCH -1 FROM c", "0A000",
         "a subscription cursor can only be read forward"),
        ("DECLARE c SUBSCRIPTION CURSOR FOR s; DECLARE c SUBSCRIPTION CURSOR FOR s", "42P03",
         'cursor "c" already exists'),
    ],
)  # fmt: skip
def test_wrong_statements(db, fails, sql, sqlstate, message):
    db.execute("CREATE VIEW p AS SELECT 1 AS a")
    assert fails(sql, sqlstate).message == message
    assert db.execute("CREATE SUBSCRIPTION IF NOT EXISTS s FROM m").notices


def state_of(changes):
    found: dict[tuple, int] = {}
    for _, weight, *row in changes:
        found[tuple(row)] = found.get(tuple(row), 0) + weight
    return {row for row, weight in found.items() if weight}


def test_random_history_adds_up_to_the_view_however_it_is_fetched(db, monkeypatch, tmp_path):
    monkeypatch.setattr(change_store, "TAIL_BYTES", 200)
    monkeypatch.setattr(change_store, "CHUNK_BYTES", 300)
    chance = random.Random(5)
    with streamsql.connect(str(tmp_path / "d")) as db:
        db.execute(SETUP)
        followers = []
        for _ in range(3):
            session = db.session()
            session.execute("DECLARE c SUBSCRIPTION CURSOR FOR s FULL")
            followers.append((session, []))
        for step in range(80):
            row = chance.randrange(20)
            db.execute(
                chance.choice((
                    f"DELETE FROM t WHERE id = {row}",
                    f"INSERT INTO t VALUES ({row}, {row % 4}) ON CONFLICT (id) DO NOTHING",
                    f"UPDATE t SET v = (v + 1) % 5 WHERE id > {row}",
                ))
            )  # fmt: skip
            for session, seen in followers:
                if chance.random() < 0.3:
                    seen += fetch(session, f"{chance.randrange(1, 9)} FROM c")
            if step == 40:
                db.engine.call(db.engine.durability.checkpoint)
        want = set(db.execute("SELECT * FROM m").fetchall())
        for session, seen in followers:
            seen += fetch(session)
            assert state_of(seen) == want
            assert [r[0] for r in seen] == sorted(r[0] for r in seen)


# --- restarts -----------------------------------------------------------------------------------
def test_changes_survive_a_clean_restart(tmp_path):
    path = str(tmp_path / "d")
    with streamsql.connect(path) as db:
        db.execute(SETUP)
        db.execute("INSERT INTO t VALUES (3, 3)")
        db.execute("DELETE FROM t WHERE id = 1")
        session = db.session()
        session.execute("DECLARE c SUBSCRIPTION CURSOR FOR s SINCE begin()")
        first = fetch(session)
    with streamsql.connect(path) as db:
        db.execute("INSERT INTO t VALUES (4, 4)")
        session = db.session()
        session.execute("DECLARE c SUBSCRIPTION CURSOR FOR s SINCE begin()")
        assert fetch(session) == [*first, (db.version, 1, 4, 1)]
        db.execute("DROP SUBSCRIPTION s")
        assert list(Path(path, "subscriptions").glob("*/*")) == []
    with streamsql.connect(path) as db:
        assert db.execute("SHOW SUBSCRIPTIONS").fetchall() == []


CHILD = """
import sys, streamsql
db = streamsql.connect(sys.argv[1])
db.execute(sys.argv[2])
for i in range(100):
    db.execute(f"INSERT INTO t VALUES ({i + 10}, {i % 7})")
    if i == 60:
        db.engine.call(db.engine.durability.checkpoint)
print(db.version, flush=True)
sys.stdin.readline()
"""


def test_changes_survive_kill_9(tmp_path):
    path = str(tmp_path / "d")
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, path, SETUP],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    version = int(child.stdout.readline())
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    with streamsql.connect(path) as db:
        assert db.version == version
        session = db.session()
        session.execute("DECLARE c SUBSCRIPTION CURSOR FOR s SINCE begin()")
        changes = fetch(session)
        assert {r[0] for r in changes} == set(range(version - 99, version + 1))
        changes.append((0, 1, 1, 2))
        assert state_of(changes) == set(db.execute("SELECT * FROM m").fetchall())


def test_what_a_crash_of_the_machine_takes_is_made_anew(tmp_path):
    files = MemoryFileSystem(seed=3)
    db = streamsql.Database("d", files=files)
    db.execute(SETUP)
    for i in range(30):
        db.execute(f"INSERT INTO t VALUES ({i + 10}, {i})")
        if i == 10:
            db.engine.call(db.engine.durability.checkpoint)
    version = db.version
    files.crash()
    again = streamsql.Database("d", files=files)
    assert again.version == version
    session = again.session()
    session.execute("DECLARE c SUBSCRIPTION CURSOR FOR s SINCE begin()")
    changes = fetch(session)
    assert sorted({r[0] for r in changes}) == list(range(version - 29, version + 1))
    assert state_of([*changes, (0, 1, 1, 2)]) == set(again.execute("SELECT * FROM m").fetchall())
    again.close()


def test_a_full_disk_makes_a_hole_that_nobody_reads_over(tmp_path, monkeypatch):
    with streamsql.connect(str(tmp_path / "d")) as db:
        db.execute(SETUP)
        session = db.session()
        session.execute("DECLARE c SUBSCRIPTION CURSOR FOR s")
        [recording] = db.engine.recordings
        log = recording.store.log
        good = log.append

        def full(*parts):
            raise DiskError("could not write: No space left on device")

        monkeypatch.setattr(log, "append", full)
        db.execute("INSERT INTO t VALUES (3, 3)")
        monkeypatch.setattr(log, "append", good)
        db.execute("INSERT INTO t VALUES (4, 4)")
        with pytest.raises(StreamSqlError, match="no longer retained"):
            fetch(session)
        session.execute("DECLARE d SUBSCRIPTION CURSOR FOR s SINCE begin()")
        assert [r[2] for r in fetch(session, "ALL FROM d")] == [4]
    with streamsql.connect(str(tmp_path / "d")) as db:
        session = db.session()
        session.execute("DECLARE d SUBSCRIPTION CURSOR FOR s SINCE begin()")
        assert [r[2] for r in fetch(session, "ALL FROM d")] == [4]


def test_old_segments_go_when_their_time_is_over(tmp_path, monkeypatch):
    monkeypatch.setattr(change_store, "MARK_EVERY", 2)
    monkeypatch.setattr("streamsql.engine.datadir.SEGMENT_BYTES", 2000)
    clock = ManualClock(1_700_000_000_000_000)
    path = tmp_path / "d"
    with streamsql.connect(str(path), clock=clock) as db:
        db.execute("CREATE TABLE t (a INT); CREATE SUBSCRIPTION s FROM t WITH (retention = '1 h')")
        for i in range(200):
            clock.advance_to(clock.now_us() + 60_000_000)
            db.execute(f"INSERT INTO t VALUES ({i})")
        segments = list((path / "subscriptions").glob("*/*.log"))
        assert 3 < len(segments) < 30
        session = db.session()
        session.execute("DECLARE c SUBSCRIPTION CURSOR FOR s SINCE begin()")
        found = [r[2] for r in fetch(session)]
        assert found == list(range(found[0], 200))
        assert 136 <= found[0] <= 140


def test_a_view_that_is_replaced_or_renamed_keeps_its_subscription(db, fails):
    session = db.session()
    session.execute("DECLARE c SUBSCRIPTION CURSOR FOR s SINCE begin()")
    before = db.version
    db.execute("ALTER MATERIALIZED VIEW m RENAME TO renamed")
    db.execute("CREATE OR REPLACE MATERIALIZED VIEW renamed AS SELECT v AS w, count(*) + 1 AS n "
               "FROM t GROUP BY v")  # fmt: skip
    found = fetch(session)
    assert sorted(found) == [(before + 2, -1, 1, 2), (before + 2, 1, 1, 3)]
    assert db.execute("SHOW CREATE SUBSCRIPTION s").fetchall()[0][1] == (
        "CREATE SUBSCRIPTION s FROM renamed WITH (retention = '1 day')"
    )
    sql = "CREATE OR REPLACE MATERIALIZED VIEW renamed AS SELECT v AS w, 1 AS n, 2 AS x FROM t"
    error = fails(sql, "42P16")
    assert "subscription s depends on" in error.detail
    db.execute("INSERT INTO t VALUES (9, 9)")
    assert [r[1:] for r in fetch(session)] == [(1, 9, 2)]


@pytest.mark.parametrize("statement", [
    "DECLARE c SUBSCRIPTION CURSOR FOR nosub",
    "COMMENT ON SUBSCRIPTION nosub IS 'x'",
    "DROP SUBSCRIPTION nosub",
])  # fmt: skip
def test_a_subscription_that_is_not_there_is_called_one(db, statement):
    with pytest.raises(StreamSqlError) as caught:
        db.execute(statement)
    assert caught.value.sqlstate == "42704"
    assert caught.value.message == 'subscription "nosub" does not exist'
    with pytest.raises(StreamSqlError, match='"t" is not a subscription'):
        db.execute("DECLARE c SUBSCRIPTION CURSOR FOR t")


def test_a_client_goes_on_over_a_change_of_the_columns(tmp_path):
    path = str(tmp_path / "d")
    seen = 0

    def follow(db):
        nonlocal seen
        session = db.session()
        session.execute(f"DECLARE c SUBSCRIPTION CURSOR FOR s SINCE {seen}")
        found = fetch(session)
        assert all(version > seen for version, *_ in found)
        seen = db.version
        return found

    with streamsql.connect(path) as db:
        db.execute("SET streamsql.retention = '1 hour'")
        db.execute(
            "CREATE TABLE k (id INT PRIMARY KEY, a INT, b INT); CREATE SUBSCRIPTION s FROM k"
        )
        seen = db.version
        db.execute("INSERT INTO k VALUES (1, 10, 100)")
        first = db.version
        assert follow(db) == [(first, 1, 1, 10, 100)]
        db.execute("INSERT INTO k VALUES (2, 20, 200)")
        db.engine.call(db.engine.durability.checkpoint)
        db.execute("DELETE FROM k WHERE id = 1")
        db.execute("ALTER TABLE k DROP COLUMN a")
        db.execute("ALTER TABLE k ADD COLUMN c INT DEFAULT 7")  # the types of before
        db.execute("INSERT INTO k VALUES (3, 300, 8)")
        want = [
            (first + 1, 1, 2, 200, 7),
            (first + 2, -1, 1, 100, 7),
            (first + 5, 1, 3, 300, 8),
        ]
        session = db.session()
        session.execute(f"DECLARE c SUBSCRIPTION CURSOR FOR s SINCE {first}")
        assert fetch(session) == want
    with streamsql.connect(path) as db:
        assert follow(db) == want
        db.execute("DELETE FROM k")
        assert sorted(r[1:] for r in follow(db)) == [(-1, 2, 200, 7), (-1, 3, 300, 8)]


@pytest.mark.parametrize("seed", range(4))
def test_changes_from_before_an_alter_survive_a_crash(seed):
    files = MemoryFileSystem(seed)
    db = streamsql.Database("d", files=files)
    db.execute("SET streamsql.retention = '1 hour'")
    db.execute("CREATE TABLE k (id INT PRIMARY KEY, a INT, b INT); CREATE SUBSCRIPTION s FROM k")
    first = db.version
    db.execute("INSERT INTO k VALUES (1, 10, 100); INSERT INTO k VALUES (2, 20, 200)")
    db.engine.call(db.engine.durability.checkpoint)
    db.execute("DELETE FROM k WHERE id = 1; ALTER TABLE k DROP COLUMN a")
    if seed % 2:
        db.engine.call(db.engine.durability.checkpoint)
    db.execute("ALTER TABLE k ADD COLUMN c INT DEFAULT 7; INSERT INTO k VALUES (3, 300, 8)")

    def changes():
        session = db.session()
        session.execute(f"DECLARE c SUBSCRIPTION CURSOR FOR s SINCE {first}")
        return fetch(session)

    want = changes()
    assert [r[1:] for r in want] == [
        (1, 1, 100, 7), (1, 2, 200, 7), (-1, 1, 100, 7), (1, 3, 300, 8)
    ]  # fmt: skip
    files.crash()
    db = streamsql.Database("d", files=files)
    assert changes() == want
    db.close()
