"""CREATE OR REPLACE with dependents, SUSPEND and RESUME, and who is told of it."""

from __future__ import annotations

import pytest

from streamsql.circuit.graph import Circuit
from streamsql.core.errors import DataCorrupted, StreamSqlError
from tests.engine.test_recovery import abandon, opened, stop
from tests.state.faulty_filesystem import MemoryFileSystem

SETUP = """
CREATE TABLE t (id INT PRIMARY KEY, g INT, v INT);
INSERT INTO t VALUES (1, 1, 10), (2, 1, 20), (3, 2, 30);
CREATE MATERIALIZED VIEW m AS SELECT g, sum(v) AS s FROM t GROUP BY g;
CREATE VIEW p AS SELECT g, s FROM m WHERE s > 0;
CREATE MATERIALIZED VIEW mm AS SELECT count(*) AS n, sum(s) AS total FROM p;
CREATE INDEX i ON m (s)
"""


@pytest.fixture
def made(db):
    db.execute(SETUP)
    return db


def refuse_states(self, states, watermarks, idle_marks):
    raise DataCorrupted("another plan")


def stream(db, what):
    session = db.session()
    session.execute(f"BEGIN; DECLARE c CURSOR FOR SUBSCRIBE {what} WITH (snapshot = false)")

    def changes():
        rows = session.execute("FETCH ALL FROM c WITH (timeout = '0 s')").fetchall()
        return sorted((r[1:] for r in rows), key=repr)

    return changes


def test_dependents_follow_in_one_version(made, rows):
    on_m, on_mm = stream(made, "m"), stream(made, "mm")
    on_query = stream(made, "(SELECT g FROM m WHERE s > 35)")
    version = made.version
    made.execute(
        "CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT g, sum(v) + 5 AS s FROM t GROUP BY g"
    )
    assert made.version == version + 1
    assert rows("SELECT * FROM m") == [(1, 35), (2, 35)]
    assert rows("SELECT * FROM mm") == [(2, 70)]
    assert rows("SELECT g FROM m WHERE s = 35") == [(1,), (2,)]
    assert on_m() == [(-1, 1, 30), (-1, 2, 30), (1, 1, 35), (1, 2, 35)]
    assert on_mm() == [(-1, 2, 60), (1, 2, 70)]
    with pytest.raises(StreamSqlError) as caught:  # its circuit read what was replaced
        on_query()
    assert caught.value.sqlstate == "55000" and "altered" in caught.value.message
    made.execute("INSERT INTO t VALUES (4, 2, 1)")
    assert rows("SELECT * FROM mm") == [(2, 71)]
    assert on_m() == [(-1, 2, 35), (1, 2, 36)]
    assert rows("VERIFY MATERIALIZED VIEW m") == rows("VERIFY MATERIALIZED VIEW mm") == []


def test_old_versions_stay_readable_where_the_columns_are_the_same(made):
    session = made.session()
    session.execute("BEGIN; SELECT * FROM mm")
    made.execute(
        "CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT g, 2 * sum(v) AS s FROM t GROUP BY g"
    )
    assert session.execute("SELECT n, total FROM mm").fetchall() == [(2, 60)]
    session.execute("COMMIT")
    assert session.execute("SELECT n, total FROM mm").fetchall() == [(2, 120)]


def test_columns_may_change_if_dependents_still_bind(made, rows):
    on_m = stream(made, "m")
    made.execute(
        "CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT 'x' AS tag, sum(v) AS s, g FROM t GROUP BY g"
    )
    assert rows("SELECT * FROM m") == [("x", 30, 1), ("x", 30, 2)]
    assert rows("SELECT * FROM mm") == [(2, 60)]
    with pytest.raises(StreamSqlError) as caught:
        on_m()
    assert caught.value.sqlstate == "55000"
    made.execute("DELETE FROM t WHERE g = 1")
    assert rows("SELECT * FROM mm") == [(1, 30)]
    assert rows("SELECT tag FROM m WHERE s = 30") == [("x",)]


def test_dependents_that_do_not_bind_are_named(made, rows, fails):
    error = fails("CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT g FROM t", "42P16")
    assert error.detail.splitlines() == [
        'view p depends on materialized view m: column "s" does not exist',
        'index i depends on materialized view m: column "s" does not exist',
    ]
    assert rows("SELECT * FROM mm") == [(2, 60)]
    fails("CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT * FROM mm", "42P16")
    fails("CREATE OR REPLACE VIEW p AS SELECT 1 AS g", "42P16")
    fails("CREATE OR REPLACE VIEW m AS SELECT 1 AS g", "42809")


def test_a_plain_view_takes_those_above_along(made, rows):
    made.execute("CREATE OR REPLACE VIEW p AS SELECT g, s * 2 AS s, 1 AS more FROM m")
    assert rows("SELECT * FROM mm") == [(2, 120)]
    made.execute("INSERT INTO t VALUES (9, 9, 9)")
    assert rows("SELECT * FROM mm") == [(3, 138)]


def test_a_view_may_read_what_is_younger_than_itself(rows):
    files = MemoryFileSystem()
    db = opened(files)
    db.execute(SETUP)
    db.execute("CREATE TABLE young (g INT, s INT); INSERT INTO young VALUES (7, 7)")
    db.execute("CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT g, s FROM young")
    for crash in (False, True):
        stop(db, files, crash)
        db = opened(files)
        assert db.execute("SELECT * FROM mm").fetchall() == [(1, 7)]
        db.execute("UPDATE young SET s = 7")
    with pytest.raises(StreamSqlError):
        db.execute("DROP TABLE young")
    db.execute("DROP TABLE young CASCADE")
    assert db.execute("SHOW MATERIALIZED VIEWS").fetchall() == []
    db.close()


def test_replacing_by_the_same_text_changes_nothing(made, rows):
    on_m = stream(made, "m")
    made.execute("CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT g, sum(v) AS s FROM t GROUP BY g")
    assert on_m() == []
    made.execute("INSERT INTO t VALUES (4, 2, 1)")
    assert rows("SELECT * FROM m") == [(1, 30), (2, 31)]
    assert rows("SELECT * FROM mm") == [(2, 61)]
    made.execute("DROP TABLE t CASCADE")
    assert not made.engine.circuit.nodes


def test_replace_inside_a_transaction(made, rows):
    session = made.session()
    session.execute("BEGIN; INSERT INTO t VALUES (4, 4, 4)")
    session.execute(
        "CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT g, min(v) AS s FROM t GROUP BY g"
    )
    assert sorted(session.execute("SELECT * FROM m").fetchall()) == [(1, 10), (2, 30), (4, 4)]
    assert rows("SELECT * FROM m") == [(1, 30), (2, 30)]
    session.execute("COMMIT")
    assert rows("SELECT * FROM m") == [(1, 10), (2, 30), (4, 4)]
    assert rows("SELECT * FROM mm") == [(3, 44)]


# --- SUSPEND and RESUME ---------------------------------------------------------------------------
def test_suspended_views_stay_at_their_version(made, rows, fails):
    on_m = stream(made, "m")
    result = made.execute("ALTER MATERIALIZED VIEW m SUSPEND")
    assert [n.message for n in result.notices] == ["suspend cascades to materialized view mm"]
    nodes = len(made.engine.circuit.nodes)
    made.execute("INSERT INTO t VALUES (4, 2, 1); DELETE FROM t WHERE id = 1")
    assert nodes == 1  # nothing is computed for them
    assert rows("SELECT * FROM m") == [(1, 30), (2, 30)]
    assert rows("SELECT * FROM mm") == [(2, 60)]
    states = "SELECT relation, state FROM streamsql.jobs WHERE kind = 'materialized view'"
    assert rows(states) == [("m", "suspended"), ("mm", "suspended")]
    assert "m RESUME" in fails("CREATE MATERIALIZED VIEW x AS SELECT * FROM m", "55000").hint
    fails("ALTER MATERIALIZED VIEW mm RESUME", "55000")
    fails("VERIFY MATERIALIZED VIEW m", "55000")
    fails("EXPLAIN ANALYZE MATERIALIZED VIEW m", "55000")
    fails("CREATE OR REPLACE MATERIALIZED VIEW mm AS SELECT g, s AS total FROM m", "55000")
    fails("ALTER TABLE t SUSPEND", "42809")
    fails("ALTER VIEW p SUSPEND", "42809")
    assert on_m() == []
    version = made.version
    made.execute("ALTER MATERIALIZED VIEW m RESUME")
    assert made.version == version + 1
    assert rows("SELECT * FROM m") == [(1, 20), (2, 31)]
    assert rows("SELECT * FROM mm") == [(2, 51)]
    assert on_m() == [(-1, 1, 30), (-1, 2, 30), (1, 1, 20), (1, 2, 31)]
    made.execute("INSERT INTO t VALUES (5, 2, 1)")
    assert rows("SELECT * FROM mm") == [(2, 52)]


def test_a_suspended_view_that_is_replaced_runs_again(made, rows):
    """And with it what was suspended because of it."""
    on_m = stream(made, "m")
    made.execute("ALTER MATERIALIZED VIEW m SUSPEND; INSERT INTO t VALUES (4, 2, 1)")
    version = made.version
    made.execute(
        "CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT g, -sum(v) AS s FROM t GROUP BY g"
    )
    assert made.version == version + 1
    assert rows("SELECT * FROM m") == [(1, -30), (2, -31)]
    assert made.execute("VERIFY MATERIALIZED VIEW mm").fetchall() == []
    assert on_m() == [(-1, 1, 30), (-1, 2, 30), (1, 1, -30), (1, 2, -31)]
    states = "SELECT relation, state FROM streamsql.jobs WHERE kind = 'materialized view'"
    assert rows(states) == [("m", "running"), ("mm", "running")]
    made.execute("ALTER MATERIALIZED VIEW m SUSPEND")
    made.execute("CREATE OR REPLACE MATERIALIZED VIEW mm AS SELECT 1 AS n, sum(v) AS total FROM t")
    assert rows(states) == [("m", "suspended"), ("mm", "running")]
    made.execute("INSERT INTO t VALUES (5, 2, 1)")
    assert made.execute("VERIFY MATERIALIZED VIEW mm").fetchall() == []
    made.execute("ALTER MATERIALIZED VIEW m RESUME")
    assert rows("SELECT * FROM m") == [(1, -30), (2, -32)]


def test_suspended_views_outlive_restarts_and_changes(monkeypatch):
    files = MemoryFileSystem()
    db = opened(files)
    db.execute(SETUP)
    db.execute("ALTER MATERIALIZED VIEW mm SUSPEND; INSERT INTO t VALUES (4, 2, 1)")
    for refilled in (False, True):
        db.close()
        if refilled:  # as after an upgrade that plans otherwise
            monkeypatch.setattr(Circuit, "load", refuse_states)
        db = opened(files)
        monkeypatch.undo()
        assert db.execute("SELECT * FROM m ORDER BY g").fetchall() == [(1, 30), (2, 31)]
        assert db.execute("SELECT * FROM mm").fetchall() == [(2, 60)]
    db.execute("ALTER TABLE t RENAME COLUMN v TO w; ALTER TABLE t ADD COLUMN x INT")
    abandon(db)
    files.crash()
    db = opened(files)
    assert db.execute("SELECT * FROM mm").fetchall() == [(2, 60)]
    db.execute("ALTER MATERIALIZED VIEW mm RESUME")
    assert db.execute("SELECT * FROM mm").fetchall() == [(2, 61)]
    db.execute("INSERT INTO t VALUES (6, 2, 9)")
    assert db.execute("SELECT * FROM mm").fetchall() == [(2, 70)]
    db.close()


def test_ksqldb_spells_it_pause_resume_terminate(made, rows):
    made.execute("SET dialect = 'ksql'; PAUSE m")
    made.execute("INSERT INTO t VALUES (4, 2, 1)")
    assert rows("SELECT s FROM m WHERE g = 2") == [(30,)]
    made.execute("RESUME m")
    assert rows("SELECT s FROM m WHERE g = 2") == [(31,)]
    made.execute("CREATE MATERIALIZED VIEW alone AS SELECT g FROM t")
    made.execute("TERMINATE alone")
    assert ("alone",) not in rows("SHOW MATERIALIZED VIEWS")


def test_a_suspended_source_reads_no_more(db, rows, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("1\n2\n")
    db.execute(
        f"CREATE SOURCE s (a INT) WITH (connector = 'file', path = '{path}') FORMAT PLAIN ENCODE CSV"
    )
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT sum(a) AS s FROM s; FLUSH")
    assert rows("SELECT * FROM m") == [(3,)]
    db.execute("ALTER SOURCE s SUSPEND")
    with path.open("a") as more:
        more.write("4\n")
    db.execute("FLUSH")
    assert rows("SELECT * FROM m") == [(3,)]
    assert rows("SELECT state FROM streamsql.jobs WHERE kind = 'source'") == [("suspended",)]
    db.execute("ALTER SOURCE s RESUME; FLUSH")
    assert rows("SELECT * FROM m") == [(7,)]


def test_subscription_above_stays_where_its_own_columns_stay(db, rows):
    db.execute("""
        CREATE TABLE b0 (k TEXT, v INT);
        CREATE MATERIALIZED VIEW b1 AS SELECT k, sum(v) AS v FROM b0 GROUP BY k;
        CREATE MATERIALIZED VIEW b2 AS SELECT k, sum(v) AS v FROM b1 GROUP BY k;
        CREATE MATERIALIZED VIEW b3 AS SELECT * FROM b1;
        CREATE SUBSCRIPTION bs FROM b2;
        INSERT INTO b0 VALUES ('a', 1);
        CREATE OR REPLACE MATERIALIZED VIEW b1 AS
            SELECT k, sum(v) * 2 AS v, count(*) AS c FROM b0 GROUP BY k
    """)
    db.execute("INSERT INTO b0 VALUES ('b', 5)")
    db.execute("DECLARE cur SUBSCRIPTION CURSOR FOR bs SINCE begin()")
    changes = [row[1:] for row in rows("FETCH ALL FROM cur")]
    assert changes == [(1, "a", 1), (-1, "a", 1), (1, "a", 2), (1, "b", 10)]
    db.execute("CREATE SUBSCRIPTION above FROM b3")
    with pytest.raises(StreamSqlError) as caught:  # b3 would get another column c, b2 would not
        db.execute("""
            CREATE OR REPLACE MATERIALIZED VIEW b1 AS
                SELECT k, sum(v) * 2 AS v, 'x' AS c FROM b0 GROUP BY k
        """)
    assert caught.value.detail == (
        "subscription above depends on materialized view b1: it keeps changes of other columns"
    )


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("shown", ["count(*)", "count(*) * 2"])
def test_view_on_close_takes_the_place_of_another_one(crash, shown):
    """It finds none of that one's operators: what these gave out of closed windows is in no
    state."""
    files = MemoryFileSystem()
    view = (
        "CREATE OR REPLACE MATERIALIZED VIEW e AS SELECT k, {} AS c FROM TUMBLE(t, ts, INTERVAL "
        "'10 s') GROUP BY k, window_end EMIT ON WINDOW CLOSE"
    )
    db = opened(files)
    db.execute("CREATE TABLE t (k TEXT, ts TIMESTAMP, WATERMARK FOR ts AS ts)")
    db.execute(view.format("count(*)"))
    db.execute("INSERT INTO t VALUES ('z', '2020-01-01 00:00:01'), ('b', '2020-01-01 00:00:33')")
    twice = 2 if "2" in shown else 1
    for _ in range(2):
        db.execute(view.format(shown))
        assert db.execute("SELECT * FROM e").fetchall() == [("z", twice)]
    db.execute("INSERT INTO t VALUES ('b', '2020-01-01 00:00:34'), ('z', '2020-01-01 00:00:05')")
    stop(db, files, crash)
    db = opened(files)
    db.execute("INSERT INTO t VALUES ('d', '2020-01-01 00:00:59')")
    assert sorted(db.execute("SELECT * FROM e").fetchall()) == [("b", 2 * twice), ("z", twice)]
    assert db.execute("VERIFY MATERIALIZED VIEW e").fetchall() == []
    db.close()
