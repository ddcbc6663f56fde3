"""FOR SYSTEM_TIME AS OF, retention, and the versions that writes tell."""

from __future__ import annotations

import pytest

import streamsql
from streamsql.core.clock import ManualClock
from streamsql.core.errors import StreamSqlError
from streamsql.engine.storage.changelog import RETAIN_BYTES
from streamsql.engine.storage.retention import Span, Timeline, parse_span


@pytest.fixture(autouse=True)
def table(db):
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT v, count(*) AS n FROM t GROUP BY v")
    db.execute("CREATE VIEW p AS SELECT id, v * 10 AS w FROM t")
    db.execute("INSERT INTO t VALUES (1, 1), (2, 1)")


def show(db, name):
    return db.execute(f"SHOW {name}").fetchall()[0][0]


def test_show_version_is_that_of_the_sessions_last_write(db):
    assert show(db, "streamsql.version") == str(db.version)
    db.execute("INSERT INTO t VALUES (3, 3)")
    mine = db.version
    other = db.session()
    other.execute("INSERT INTO t VALUES (4, 4)")
    assert show(db, "streamsql.version") == str(mine)
    assert other.execute("SHOW streamsql.version").fetchall() == [(str(db.version),)]
    db.execute("BEGIN; INSERT INTO t VALUES (5, 5); DELETE FROM t WHERE id = 1; COMMIT")
    assert show(db, "streamsql.version") == str(db.version)


def test_version_notice_comes_with_every_write(db):
    assert db.execute("INSERT INTO t VALUES (3, 3)").notices == []
    db.execute("SET streamsql.version_notice = on")
    for text in ("INSERT INTO t VALUES (4, 4)", "UPDATE t SET v = 5", "DELETE FROM t",
                 "CREATE TABLE other (a INT)"):  # fmt: skip
        notices = db.execute(text).notices
        assert [n.message for n in notices] == [f"version {db.version}"]
    assert db.execute("SELECT 1").notices == []


def test_two_versions_of_one_relation_are_joined(db, rows):
    before = db.version
    db.execute("UPDATE t SET v = 9 WHERE id = 2")
    db.execute("INSERT INTO t VALUES (3, 3)")
    sql = (
        "SELECT n.id, o.v, n.v FROM t n LEFT JOIN t FOR SYSTEM_TIME AS OF $1 o ON n.id = o.id"
        " WHERE o.v IS DISTINCT FROM n.v"
    )
    assert rows(sql, [before]) == [(2, 1, 9), (3, None, 3)]
    literal = sql.replace("$1", str(before))
    assert rows(literal) == [(2, 1, 9), (3, None, 3)]


def test_every_relation_is_read_at_its_version(db, rows):
    before = db.version
    db.execute("DELETE FROM t WHERE id = 1")
    of = f"FOR SYSTEM_TIME AS OF {before}"
    assert rows(f"SELECT * FROM m {of}") == [(1, 2)]
    assert rows("SELECT * FROM m") == [(1, 1)]
    assert rows(f"SELECT p.id, w FROM p {of}") == [(1, 10), (2, 10)]
    assert rows(f"SELECT public.t.id FROM public.t {of}") == [(1,), (2,)]
    assert rows(f"SELECT a.n, b.id FROM m {of} a, t b") == [(2, 2)]
    assert rows(f"SELECT (SELECT count(*) FROM t {of}), count(*) FROM t") == [(2, 1)]
    assert rows(f"WITH c AS (SELECT * FROM t {of}) SELECT count(*) FROM c") == [(2,)]


def test_a_version_can_be_a_parameter_a_text_or_a_time(rows):
    clock = ManualClock(1_700_000_000_000_000)
    with streamsql.connect(clock=clock) as db:
        db.execute("SET TIME ZONE 'Europe/Paris'")
        db.execute("CREATE TABLE t (id INT)")
        for i in range(4):
            clock.advance_to(clock.now_us() + 3_600_000_000)
            db.execute(f"INSERT INTO t VALUES ({i})")

        def count(of, *values):
            sql = f"SELECT count(*) FROM t FOR SYSTEM_TIME AS OF {of}"
            return db.execute(sql, list(values)).fetchall()[0][0]

        assert count("$1", db.version - 1) == 3
        assert count(f"'{db.version - 2}'") == 2
        assert count("now()") == 4
        assert count("now() - INTERVAL '90 minutes'") == 2
        assert count("'2023-11-15 00:13:20'") == 1  # Paris: an hour ahead
        assert count("TIMESTAMPTZ '2023-11-14 23:13:20Z'") == 1
        assert count("TIMESTAMP '2023-11-15 00:13:20'") == 1
        assert count("DATE '2023-11-15'") == 0
        db.execute("PREPARE q AS SELECT count(*) FROM t FOR SYSTEM_TIME AS OF $1 WHERE id >= $2")
        assert db.execute(f"EXECUTE q ({db.version - 1}, 1)").fetchall() == [(2,)]


def test_old_rows_can_be_inserted_again(db, rows):
    before = db.version
    db.execute("DELETE FROM t")
    assert db.execute(
        f"INSERT INTO t SELECT * FROM t FOR SYSTEM_TIME AS OF {before}"
    ).row_count == 2  # fmt: skip
    db.execute(f"CREATE TABLE copy AS SELECT * FROM t FOR SYSTEM_TIME AS OF {before}")
    assert rows("SELECT * FROM t") == rows("SELECT * FROM copy") == [(1, 1), (2, 1)]


def test_random_history_is_readable_at_every_version(db, rows):
    import random

    chance = random.Random(7)
    seen = {}
    for _ in range(60):
        row = chance.randrange(12)
        db.execute(
            chance.choice((
                f"DELETE FROM t WHERE id = {row}",
                f"INSERT INTO t VALUES ({row}, {row % 3}) ON CONFLICT (id) DO NOTHING",
                f"UPDATE t SET v = v + 1 WHERE id > {row}",
            ))
        )  # fmt: skip
        seen[db.version] = (rows("SELECT * FROM t"), rows("SELECT * FROM m"))
    for version, (t, m) in seen.items():
        of = f"FOR SYSTEM_TIME AS OF {version}"
        assert (rows(f"SELECT * FROM t {of}"), rows(f"SELECT * FROM m {of}")) == (t, m)
        assert rows(f"SELECT * FROM t {of} WHERE id = 5") == [r for r in t if r[0] == 5]


def test_a_transaction_reads_older_versions_without_its_own_writes(db):
    before = db.version
    session = db.session()
    session.execute("BEGIN; INSERT INTO t VALUES (3, 3)")
    of = f"SELECT count(*) FROM t FOR SYSTEM_TIME AS OF {before}"
    assert session.execute(of).fetchall() == [(2,)]
    assert session.execute("SELECT count(*) FROM t").fetchall() == [(3,)]
    session.execute("ROLLBACK")


def test_retention_in_versions_keeps_that_many(db, rows, fails):
    db.execute("CREATE TABLE r (a INT) WITH (retention = '3 versions')")
    for i in range(6):
        db.execute(f"INSERT INTO r VALUES ({i})")
    newest = db.version
    assert rows(f"SELECT count(*) FROM r FOR SYSTEM_TIME AS OF {newest - 3}") == [(3,)]
    error = fails(f"SELECT * FROM r FOR SYSTEM_TIME AS OF {newest - 5}", "40001")
    assert error.message == f"version {newest - 5} is no longer retained"
    assert str(newest - 4) in error.hint
    assert rows(f"SELECT count(*) FROM t FOR SYSTEM_TIME AS OF {newest - 6}") == [(2,)]


def test_retention_in_time_and_of_the_server():
    clock = ManualClock(1_700_000_000_000_000)
    with streamsql.connect(clock=clock) as db:
        db.execute("SET streamsql.retention = '1 hour'")
        assert show(db.session(), "streamsql.retention") == "1 hour"
        db.execute("CREATE TABLE t (id INT)")
        db.execute("CREATE MATERIALIZED VIEW m WITH (retention = '10 minutes') AS TABLE t")
        versions = []
        for i in range(5):
            db.execute(f"INSERT INTO t VALUES ({i})")
            versions.append(db.version)
            clock.advance_to(clock.now_us() + 20 * 60_000_000)

        def count(name, version):
            sql = f"SELECT count(*) FROM {name} FOR SYSTEM_TIME AS OF {version}"
            return db.execute(sql).fetchall()[0][0]

        assert count("t", versions[1]) == 2
        with pytest.raises(StreamSqlError, match="no longer retained"):
            count("t", versions[0])
        with pytest.raises(StreamSqlError, match="no longer retained"):
            count("m", versions[2])
        # an idle relation lets go too
        db.execute("CREATE TABLE other (a INT)")
        with pytest.raises(StreamSqlError, match="no longer retained"):
            count("t", versions[1])
        db.execute("RESET streamsql.retention")
        assert show(db, "streamsql.retention") == "off"


def test_retained_memory_is_bounded_and_shown(db, rows, monkeypatch):
    monkeypatch.setattr("streamsql.engine.storage.changelog.RETAIN_BYTES", 1 << 14)
    monkeypatch.setattr("streamsql.engine.storage.retention.RETAIN_BYTES", 1 << 14)
    db.execute("SET streamsql.retention = '1 day'; SET streamsql.retention_memory = '100kB'")
    db.execute("CREATE TABLE big (a BIGINT)")
    first = db.version
    for _ in range(200):
        db.execute("INSERT INTO big SELECT * FROM generate_series(1, 100)")
    [(name, promise, oldest, _, changes, nbytes, disk)] = rows(
        "SELECT relation, retention, oldest_version, oldest_time, changes, bytes, disk_bytes"
        " FROM streamsql.retained_versions WHERE relation = 'big'"
    )
    assert disk == 0  # it is in memory
    assert (name, promise) == ("big", "1 day")
    assert first < oldest < db.version
    assert 0 < changes < 200
    assert nbytes < 250_000  # what one sweep lets through, and not 400 kB
    assert RETAIN_BYTES > 1 << 14


@pytest.mark.parametrize(
    ("of", "sqlstate", "message"),
    [
        ("99999", "22023", "version 99999 does not exist yet"),
        ("-1", "22023", "version -1 does not exist"),
        ("NULL", "22023", "the version of FOR SYSTEM_TIME AS OF may not be null"),
        ("'2999-01-01'", "22023", "FOR SYSTEM_TIME AS OF is in the future"),
        ("true", "42804", "FOR SYSTEM_TIME AS OF must be a version or a time, not type boolean"),
        ("'noon'", "22007", 'invalid input syntax for type timestamp with time zone: "noon"'),
    ],
)
def test_wrong_versions(fails, of, sqlstate, message):
    assert fails(f"SELECT * FROM t FOR SYSTEM_TIME AS OF {of}", sqlstate).message == message


@pytest.mark.parametrize(
    ("sql", "sqlstate", "message"),
    [
        ("SELECT * FROM streamsql.jobs FOR SYSTEM_TIME AS OF 1", "0A000",
         '"jobs" has no older versions'),
        ("SELECT * FROM nope FOR SYSTEM_TIME AS OF 1", "42P01", 'relation "nope" does not exist'),
        ("CREATE TABLE x (a INT) WITH (retention = 'soon')", "22023",
         'invalid value for "retention": "soon"'),
        ("CREATE MATERIALIZED VIEW x WITH (retention = '1 month') AS TABLE t", "22023",
         'invalid value for "retention": "1 month"'),
        ("SET streamsql.retention = '-1 h'", "22023",
         'invalid value for "streamsql.retention": "-1 h"'),
        ("SET streamsql.retention_memory = '5'", "22023",
         'invalid value for parameter "streamsql.retention_memory": "5"'),
        ("SET streamsql.version = 4", "55P02", 'parameter "streamsql.version" cannot be changed'),
    ],
)  # fmt: skip
def test_wrong_statements(fails, sql, sqlstate, message):
    assert fails(sql, sqlstate).message == message


def test_retention_survives_a_restart_and_what_the_log_replays(tmp_path):
    path = str(tmp_path / "data")
    with streamsql.connect(path) as db:
        db.execute("CREATE TABLE t (a INT) WITH (retention = '100 versions')")
        db.execute("SET streamsql.retention = '7 versions'")
        db.execute("INSERT INTO t VALUES (1)")
        version = db.version
    with streamsql.connect(path) as db:
        assert show(db, "streamsql.retention") == "7 versions"
        assert db.version == version
        of = "FOR SYSTEM_TIME AS OF"
        assert db.execute(f"SELECT * FROM t {of} {version - 1}").fetchall() == []
        db.execute("CREATE TABLE u (a INT) WITH (retention = 'off'); INSERT INTO u VALUES (1)")
        version = db.version
    with streamsql.connect(path) as db:
        with pytest.raises(StreamSqlError, match="no longer retained") as caught:
            db.execute(f"SELECT * FROM u {of} {version - 1}").fetchall()
        assert str(version) in caught.value.hint
        db.execute("INSERT INTO t VALUES (2)")
        found = db.execute(f"SELECT * FROM t {of} {version}").fetchall()
        assert found == [(1,)]


def test_spans_and_timeline():
    assert parse_span("2 versions", "x") == parse_span("2", "x") == Span(versions=2)
    assert parse_span("1 day", "x") == Span(us=86_400_000_000)
    assert parse_span("off", "x") is None
    timeline = Timeline()
    assert timeline.at(5) is None and timeline.first is None
    for version in range(1, 3000):
        timeline.add(version, version * 10)
    assert timeline.at(9) is None
    assert timeline.at(10) == 1
    assert timeline.at(10_005) == 1000
    assert timeline.time_of(2999) == 29_990
    assert timeline.time_of(3000) is None
    assert timeline.first == (1, 10)
