"""What comes back after a stop, a crash at any operation of the disk, and a full disk."""

from __future__ import annotations

import errno
import random

import pytest

from streamsql.core.errors import DataCorrupted, DataDirectoryInUse, DiskError, StreamSqlError
from streamsql.engine.build import CatalogBuilder
from streamsql.engine.database import Database
from tests.state.faulty_filesystem import Crash, MemoryFileSystem

SETUP = """
CREATE TABLE t (id INT PRIMARY KEY, g INT, ts TIMESTAMP, WATERMARK FOR ts AS ts);
CREATE TABLE bag (v INT);
CREATE SCHEMA s;
CREATE MATERIALIZED VIEW m AS SELECT g, count(*) AS n FROM t GROUP BY g;
CREATE MATERIALIZED VIEW s.mm AS SELECT sum(n) AS total FROM m;
CREATE MATERIALIZED VIEW w AS SELECT window_start, count(*) AS n
  FROM TUMBLE(t, ts, INTERVAL '1 minute') GROUP BY window_start;
CREATE VIEW v AS SELECT * FROM m;
COMMENT ON TABLE t IS 'the table';
INSERT INTO t VALUES (1, 1, '2024-01-01 00:00:00'), (2, 1, '2024-01-01 00:10:00'),
  (3, 2, '2024-01-01 00:01:00');
INSERT INTO bag VALUES (1), (1), (2);
UPDATE t SET g = 3 WHERE id = 1;
DELETE FROM bag WHERE v = 2
"""
QUERIES = (
    "SELECT id, g FROM t",
    "SELECT * FROM bag",
    "SELECT * FROM m",
    "SELECT * FROM s.mm",
    "SELECT * FROM w",
    "SELECT * FROM v",
    "SELECT view, row, version FROM streamsql.late_rows",
    "SELECT relation, watermark FROM streamsql.watermarks WHERE operator = 'source'",
)


def contents(db: Database) -> list[list[tuple[object, ...]]]:
    return [sorted(db.execute(q).fetchall(), key=repr) for q in QUERIES]


def opened(files: MemoryFileSystem) -> Database:
    return Database("data", files=files)


def stop(db: Database, files: MemoryFileSystem, crash: bool) -> None:
    """Close the database, or let it go with what the disk holds by then."""
    if crash:
        abandon(db)
        files.crash()
    else:
        db.close()


def abandon(db: Database) -> None:
    """Leave a database as a killed process would: nothing is written any more."""
    db.engine.closed = True
    db.engine.ingest.close()
    db.engine.scheduler.stop()
    writer = getattr(db.engine.durability, "_await_writer", None)
    if writer is not None:  # a process that is killed takes the thread of a checkpoint along
        writer()
    db.engine.pool.close()


def test_replay_of_the_log_gives_the_same_versions():
    files = MemoryFileSystem()
    db = opened(files)
    db.execute(SETUP)
    expected, version = contents(db), db.version
    abandon(db)
    files.crash()
    again = opened(files)
    assert again.version == version
    assert contents(again) == expected
    again.execute("INSERT INTO t VALUES (4, 2, '2024-01-01 00:02:00')")
    assert again.execute("SELECT * FROM s.mm").fetchall() == [(4,)]
    again.close()


def test_checkpoint_at_close_then_more_log():
    files = MemoryFileSystem()
    db = opened(files)
    db.execute(SETUP)
    expected, version = contents(db), db.version
    db.close()
    db = opened(files)
    assert (db.version, contents(db)) == (version, expected)
    db.execute("INSERT INTO t VALUES (9, 9, '2024-01-01 00:30:00')")
    db.execute("DROP VIEW v")
    expected = [sorted(db.execute(q).fetchall(), key=repr) for q in QUERIES if " v" not in q]
    abandon(db)
    files.crash()
    db = opened(files)
    found = [sorted(db.execute(q).fetchall(), key=repr) for q in QUERIES if " v" not in q]
    assert found == expected
    db.close()


def test_oids_and_row_ids_go_on_after_a_restart():
    files = MemoryFileSystem()
    with opened(files) as db:
        db.execute("CREATE TABLE a (v INT); INSERT INTO a VALUES (1), (2)")
        first = db.engine.catalog.get("public", "a").oid
    with opened(files) as db:
        db.execute("CREATE TABLE b (v INT); INSERT INTO a VALUES (3)")
        assert db.engine.catalog.get("public", "a").oid == first
        assert db.engine.catalog.get("public", "b").oid > first
        ids = db.engine.tables[first].snapshot().column(1).to_pylist()
        assert ids == [1, 2, 3]


def test_temporary_tables_and_rolled_back_work_leave_nothing():
    files = MemoryFileSystem()
    db = opened(files)
    session = db.session()
    session.execute("CREATE TEMP TABLE x (a INT)")
    session.execute("INSERT INTO x VALUES (1)")
    session.execute("BEGIN; CREATE TABLE y (a INT); ROLLBACK")
    abandon(db)
    db = opened(files_after(files))
    assert db.execute("SHOW TABLES").fetchall() == []
    assert [s for s in db.engine.catalog.schemas if s.startswith("pg_temp")] == []
    db.close()


def files_after(files: MemoryFileSystem) -> MemoryFileSystem:
    files.crash()
    return files


def test_manual_clock_survives():
    files = MemoryFileSystem()
    db = opened(files)
    db.execute("SET streamsql.clock = 'manual'")
    db.execute("ADVANCE CLOCK TO '2035-05-05 05:05:05+00'")
    abandon(db)
    db = opened(files_after(files))
    assert str(db.execute("SELECT now()").fetchall()[0][0]) == "2035-05-05 05:05:05+00:00"
    db.close()


def test_directory_is_locked():
    files = MemoryFileSystem()
    db = opened(files)
    with pytest.raises(DataDirectoryInUse):
        opened(files)
    db.close()
    opened(files).close()


def test_full_disk_refuses_writes_and_changes_nothing():
    files = MemoryFileSystem()
    db = opened(files)
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n FROM t")
    db.execute("INSERT INTO t VALUES (1, 'a')")
    files.capacity = files.used + 2000
    accepted = 1
    with pytest.raises(DiskError) as caught:
        for i in range(2, 200):
            db.execute(f"INSERT INTO t VALUES ({i}, '{'x' * 50}')")
            accepted = i
    assert caught.value.sqlstate == "58030"
    assert db.execute("SELECT * FROM m").fetchall() == [(accepted,)]
    with pytest.raises(DiskError):
        db.execute("CREATE TABLE other (a INT, " + ", ".join(f"c{i} INT" for i in range(99)) + ")")
    assert db.execute("SHOW TABLES").fetchall() == [("t",)]
    files.capacity = None
    db.execute(f"INSERT INTO t VALUES ({accepted + 1}, 'again')")
    assert db.execute("SELECT * FROM m").fetchall() == [(accepted + 1,)]
    db.close()
    db = opened(files)
    assert db.execute("SELECT * FROM m").fetchall() == [(accepted + 1,)]
    db.close()


def test_failed_sync_refuses_the_write_and_all_later_ones():
    files = MemoryFileSystem()
    db = opened(files)
    db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    before = files.operations
    db.execute("INSERT INTO t VALUES (1)")
    files.fail_at = files.operations + (files.operations - before)
    files.error = errno.EIO
    with pytest.raises(DiskError):
        db.execute("INSERT INTO t VALUES (2)")
    assert db.execute("SELECT * FROM t").fetchall() == [(1,)]
    with pytest.raises(DiskError):
        db.execute("INSERT INTO t VALUES (3)")
    assert db.execute("SELECT * FROM t").fetchall() == [(1,)]
    abandon(db)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("seed", range(12))
def test_crash_at_any_operation_loses_no_acknowledged_write(seed):
    """Writes, checkpoints and restarts; the power fails at a drawn operation of the disk."""
    draw = random.Random(seed)
    files = MemoryFileSystem(seed)
    acknowledged: dict[int, int] = {}
    attempted: dict[int, int] = {}
    key = 0
    for life in range(4):
        db = opened(files)
        if life == 0:
            db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
            db.execute("CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n, sum(v) AS s FROM t")
        found = dict(db.execute("SELECT id, v FROM t").fetchall())
        assert {k: found.get(k) for k in acknowledged} == acknowledged
        assert all(attempted.get(k) == v for k, v in found.items())
        total = db.execute("SELECT n, s FROM m").fetchall()
        assert total == [(len(found), sum(found.values()) if found else None)]
        acknowledged = dict(found)
        files.fail_at = files.operations + draw.randint(1, 60)
        try:
            while True:
                key += 1
                attempted[key] = draw.randint(0, 9)
                if draw.random() < 0.1:
                    db.engine.call(db.engine.durability.checkpoint)
                db.execute(f"INSERT INTO t VALUES ({key}, {attempted[key]})")
                acknowledged[key] = attempted[key]
        except (Crash, StreamSqlError):
            pass
        abandon(db)
        files.crash()


def test_damaged_log_is_refused_with_a_clear_message():
    files = MemoryFileSystem()
    db = opened(files)
    db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    for i in range(3):
        db.execute(f"INSERT INTO t VALUES ({i})")
    db.close()
    manifest = next(name for name in files.names if name.endswith("MANIFEST"))
    files.names[manifest].data[40] ^= 0xFF
    with pytest.raises(DataCorrupted):
        opened(files)


def test_views_are_filled_anew_when_their_saved_state_does_not_fit(monkeypatch):
    from streamsql.circuit.graph import Circuit

    files = MemoryFileSystem()
    db = opened(files)
    db.execute(SETUP.split("UPDATE", maxsplit=1)[0])
    expected = contents(db)[:6]
    db.close()

    def refuse(self, states, watermarks, idle_marks):
        raise DataCorrupted("another version")

    monkeypatch.setattr(Circuit, "load", refuse)
    db = opened(files)
    assert contents(db)[:6] == expected
    db.execute("INSERT INTO t VALUES (77, 1, '2024-01-01 00:11:00')")
    assert db.execute("SELECT n FROM m WHERE g = 1").fetchall() == [(3,)]
    db.close()


def test_checkpoints_are_written_while_writes_go_on(monkeypatch):
    monkeypatch.setattr("streamsql.engine.datadir.CHECKPOINT_LOG_BYTES", 5_000)
    files = MemoryFileSystem()
    db = opened(files)
    db.execute(SETUP)
    for i in range(100, 300):
        db.execute(f"INSERT INTO t VALUES ({i}, {i % 5}, '2024-01-02')")
        if i % 3 == 0:
            db.execute(f"UPDATE t SET g = 9 WHERE id = {i}")
    db.engine.durability._await_writer()
    assert db.engine.durability._checkpoints.epoch > 1
    expected = contents(db)
    abandon(db)
    files.crash()
    again = opened(files)
    assert contents(again) == expected
    again.close()


def test_views_that_are_dropped_again_are_not_made_by_a_replay(monkeypatch):
    files = MemoryFileSystem()
    db = opened(files)
    db.execute("CREATE TABLE t (a INT PRIMARY KEY, b INT); INSERT INTO t VALUES (1, 1), (2, 2)")
    db.execute("CREATE MATERIALIZED VIEW kept AS SELECT sum(a) AS s FROM t")
    for i in range(5):
        db.execute(f"CREATE MATERIALIZED VIEW gone{i} AS SELECT b, count(*) AS n FROM t GROUP BY b")
        db.execute(f"CREATE MATERIALIZED VIEW above{i} AS SELECT sum(n) AS n FROM gone{i}")
        db.execute(f"CREATE INDEX i{i} ON gone{i} (n); INSERT INTO t VALUES ({i + 10}, 1)")
        db.execute(f"ALTER MATERIALIZED VIEW gone{i} SUSPEND; DELETE FROM t WHERE a = {i}")
        db.execute(f"ALTER MATERIALIZED VIEW gone{i} RENAME TO g{i}")
        db.execute("ALTER TABLE t RENAME COLUMN b TO c; ALTER TABLE t RENAME COLUMN c TO b")
        db.execute(f"ALTER MATERIALIZED VIEW g{i} RESUME")
        if i % 2:
            sql = f"CREATE OR REPLACE MATERIALIZED VIEW above{i} AS SELECT count(*) AS n FROM t"
            db.execute(sql)
            db.execute(f"DROP MATERIALIZED VIEW g{i}")
        else:
            db.execute(f"DROP MATERIALIZED VIEW g{i} CASCADE")
    db.execute("CREATE INDEX kept_i ON t (b)")
    expected = [db.execute(f"SELECT * FROM {v}").fetchall() for v in ("kept", "above1", "above3")]
    abandon(db)
    files.crash()
    built = []
    build_view = CatalogBuilder.build_view

    def counted(self, relation, built_so_far, *, fill=True):
        built.append(relation.name)
        return build_view(self, relation, built_so_far, fill=fill)

    monkeypatch.setattr(CatalogBuilder, "build_view", counted)
    db = opened(files)
    assert {name for name in built if name[:1] == "a"} == {"above1", "above3"}
    assert not {name for name in built if name in ("gone0", "gone2", "gone4")}
    got = [db.execute(f"SELECT * FROM {v}").fetchall() for v in ("kept", "above1", "above3")]
    assert got == expected
    assert db.execute("SHOW INDEXES FROM t").fetchall()
    db.execute("INSERT INTO t VALUES (50, 7)")
    assert db.execute("SELECT a FROM t WHERE b = 7").fetchall() == [(50,)]
    db.execute("DROP TABLE t CASCADE")
    assert not [n for n in db.engine.circuit.nodes.values() if n.label[:6] != "values"]
    db.close()


def test_many_catalog_changes_make_a_checkpoint_due():
    files = MemoryFileSystem()
    db = opened(files)
    for i in range(70):
        db.execute(f"CREATE TABLE u{i} (a INT); DROP TABLE u{i}")
    db.engine.durability._await_writer()
    assert db.engine.durability._checkpointed_version > 0
    abandon(db)
