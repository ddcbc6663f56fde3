"""Older versions outlive what happens to a database: ALTER, a new definition, restarts, crashes."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

import streamsql
from streamsql.core.clock import ManualClock
from streamsql.core.delta import Delta
from streamsql.core.errors import StreamSqlError
from streamsql.core.schema import Schema
from streamsql.core.types import BIGINT
from streamsql.engine.storage import changelog
from streamsql.engine.storage.changelog import ChangeLog, Keep
from tests.state.faulty_filesystem import MemoryFileSystem

SETUP = """
    SET streamsql.retention = '1 hour';
    CREATE TABLE t (id INT PRIMARY KEY, v INT);
    CREATE MATERIALIZED VIEW m AS SELECT v, count(*) AS n FROM t GROUP BY v;
    CREATE VIEW p AS SELECT id, v * 10 AS w FROM t
"""
QUERIES = {"t": "SELECT id, v FROM t", "m": "SELECT v, n FROM m", "p": "SELECT id, w FROM p"}


class Past:
    """The content of every relation at every version that was seen."""

    def __init__(self):
        self.seen = {}
        self.chance = random.Random(11)

    def note(self, db):
        for name, sql in QUERIES.items():
            self.seen[name, db.version] = sorted(db.execute(sql).fetchall())

    def live(self, db, steps=12):
        for _ in range(steps):
            row = self.chance.randrange(9)
            db.execute(
                self.chance.choice((
                    f"DELETE FROM t WHERE id = {row}",
                    f"INSERT INTO t (id, v) VALUES ({row}, {row % 3}) ON CONFLICT (id) DO NOTHING",
                    f"UPDATE t SET v = v + 1 WHERE id > {row}",
                ))
            )  # fmt: skip
            self.note(db)

    def check(self, db):
        for (name, version), want in self.seen.items():
            sql = f"{QUERIES[name]} FOR SYSTEM_TIME AS OF {version}"
            assert sorted(db.execute(sql).fetchall()) == want, (name, version)


def checkpoint(db):
    db.engine.call(db.engine.durability.checkpoint)


def folded(db, relation, version):
    """A SUBSCRIBE from that version to the newest, added up."""
    bag = {}
    stream = db.execute(f"SUBSCRIBE {relation} AS OF {version} UP TO {db.version}")
    for _, weight, *row in stream.fetchall():
        bag[tuple(row)] = bag.get(tuple(row), 0) + weight
    return sorted(row for row, weight in bag.items() for _ in range(weight))


# --- ALTER TABLE ----------------------------------------------------------------------------------
def test_versions_before_an_alter_table_stay_readable(db):
    past = Past()
    db.execute(SETUP)
    past.live(db)
    first = db.version
    for change in (
        "ADD COLUMN c INT DEFAULT 7",
        "ADD COLUMN g INT GENERATED ALWAYS AS (v * 2) STORED",
        "DROP COLUMN c",
        "ADD COLUMN r TEXT NOT NULL DEFAULT gen_random_uuid()::text",
        "RENAME COLUMN g TO h",
    ):
        db.execute(f"ALTER TABLE t {change}")
        past.live(db)
        past.check(db)
        assert folded(db, "t", first) == sorted(db.execute("SELECT * FROM t").fetchall())
    for _, version in past.seen:
        for row in db.execute(f"SELECT * FROM t FOR SYSTEM_TIME AS OF {version}").fetchall():
            assert row[2] == 2 * row[1]


def test_older_versions_have_the_columns_of_now(db, rows, fails):
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
    db.execute("INSERT INTO t VALUES (1, 10, 0), (2, 20, 4)")
    before = db.version
    db.execute("DELETE FROM t WHERE id = 1")
    db.execute("ALTER TABLE t ADD COLUMN c INT DEFAULT 7")
    db.execute("ALTER TABLE t DROP COLUMN a")
    db.execute("ALTER TABLE t ADD COLUMN q INT GENERATED ALWAYS AS (8 / b) STORED")
    of = f"FOR SYSTEM_TIME AS OF {before}"
    # the row that is gone has no quotient: 8 / 0
    assert rows(f"SELECT * FROM t {of}") == [(1, 0, 7, None), (2, 4, 7, 2)]
    assert rows(f"SELECT q FROM t {of} WHERE id = 2") == [(2,)]
    assert fails(f"SELECT a FROM t {of}", "42703").message == 'column "a" does not exist'


def test_an_alter_that_fails_leaves_older_versions_as_they_are(db):
    past = Past()
    db.execute(SETUP)
    past.live(db)
    with pytest.raises(StreamSqlError):
        db.execute("ALTER TABLE t ADD COLUMN c INT NOT NULL")
    past.check(db)
    db.execute("BEGIN; ALTER TABLE t ADD COLUMN c INT; ROLLBACK")
    past.live(db, 3)
    past.check(db)


def test_a_view_with_other_columns_keeps_the_versions_of_the_old_one(db, rows):
    db.execute(SETUP)
    db.execute("CREATE INDEX by_n ON m (n); INSERT INTO t VALUES (1, 1), (2, 1), (3, 2)")
    first = db.version
    db.execute(
        "CREATE OR REPLACE MATERIALIZED VIEW m AS"
        " SELECT sum(id) AS s, v, count(*) AS n FROM t GROUP BY v"
    )
    assert rows(f"SELECT v, n, s FROM m FOR SYSTEM_TIME AS OF {first}") == [
        (1, 2, None), (2, 1, None)
    ]  # fmt: skip
    assert folded(db, "m", first) == rows("SELECT * FROM m") == [(3, 1, 2), (3, 2, 1)]
    assert rows("SELECT s FROM m WHERE n = 2") == [(3,)]
    assert rows("VERIFY MATERIALIZED VIEW m") == []


# --- restarts -------------------------------------------------------------------------------------
def test_versions_survive_restarts_and_checkpoints(tmp_path):
    past = Past()
    path = str(tmp_path / "d")
    with streamsql.connect(path) as db:
        db.execute(SETUP)
        past.live(db)
        checkpoint(db)
        past.live(db)
        db.execute("ALTER TABLE t ADD COLUMN c INT DEFAULT 7")
    for round_ in range(3):
        with streamsql.connect(path) as db:
            past.check(db)
            past.live(db, 5)
            if round_ == 1:
                db.execute("ALTER TABLE t DROP COLUMN c")
                checkpoint(db)
            past.live(db, 5)
            past.check(db)
            first = min(version for _, version in past.seen)
            for name in ("t", "m"):
                assert folded(db, name, first) == sorted(db.execute(f"TABLE {name}").fetchall())
                assert db.execute(f"SUBSCRIBE {name} AS OF {first} UP TO {first}").fetchall() == [
                    (first, 1, *row) for row in db.execute(
                        f"SELECT * FROM {name} FOR SYSTEM_TIME AS OF {first}").fetchall()
                ]  # fmt: skip


CHILD = """
import sys, streamsql
db = streamsql.connect(sys.argv[1])
db.execute(sys.argv[2])
for i in range(60):
    db.execute(f"INSERT INTO t VALUES ({i}, {i % 7})")
    if i == 20:
        db.execute("ALTER TABLE t ADD COLUMN c INT DEFAULT 7; ALTER TABLE t DROP COLUMN c")
    if i == 40:
        db.engine.call(db.engine.durability.checkpoint)
print(db.version, flush=True)
sys.stdin.readline()
"""


def test_versions_survive_kill_9(tmp_path):
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
        counts = [
            db.execute(f"SELECT count(*) FROM t FOR SYSTEM_TIME AS OF {v}").fetchall()[0][0]
            for v in range(version, 0, -1)
        ]
        # a version an insert, but for the two ALTERs
        assert [n for n in counts if n] == [*range(60, 21, -1), 21, 21, *range(21, 0, -1)]
        assert len(folded(db, "m", 5)) == 7


def test_versions_survive_a_crash_of_the_machine():
    past = Past()
    files = MemoryFileSystem(seed=3)
    db = streamsql.Database("d", files=files)
    db.execute(SETUP)
    for _ in range(3):
        past.live(db, 6)
        checkpoint(db)
        past.live(db, 6)
        files.crash()
        db = streamsql.Database("d", files=files)
        past.check(db)
    db.close()


def test_a_time_is_known_after_a_restart_and_the_retention_goes_on(tmp_path):
    clock = ManualClock(1_700_000_000_000_000)
    path = str(tmp_path / "d")
    with streamsql.connect(path, clock=clock) as db:
        db.execute("CREATE TABLE t (a INT) WITH (retention = '1 hour'); CREATE TABLE u (a INT)")
        for i in range(4):
            clock.advance_to(clock.now_us() + 20 * 60_000_000)
            db.execute(f"INSERT INTO t VALUES ({i})")
    with streamsql.connect(path, clock=clock) as db:

        def count(minutes):
            sql = f"SELECT count(*) FROM t FOR SYSTEM_TIME AS OF now() - INTERVAL '{minutes} min'"
            return db.execute(sql).fetchall()[0][0]

        assert [count(m) for m in (0, 19, 20, 40, 60)] == [4, 3, 3, 2, 1]
        [(oldest, changes, disk)] = db.execute(
            "SELECT oldest_time, changes, disk_bytes > 0 FROM streamsql.retained_versions"
            " WHERE relation = 't'"
        ).fetchall()
        assert (oldest.timestamp(), changes, disk) == (1_700_001_200, 3, True)
        clock.advance_to(clock.now_us() + 20 * 60_000_000)
        db.execute("INSERT INTO u VALUES (1)")  # time goes on for an idle relation too
        assert count(60) == 2
        with pytest.raises(StreamSqlError, match="no longer retained"):
            count(61)


def test_who_promises_nothing_costs_a_checkpoint_nothing(tmp_path):
    path = str(tmp_path / "d")
    with streamsql.connect(path) as db:
        db.execute("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW m AS TABLE t")
        db.execute("CREATE TABLE k (a INT) WITH (retention = '9 versions')")
        db.execute("INSERT INTO t VALUES (1); INSERT INTO k VALUES (1)")
        checkpoint(db)
        oid = db.engine.catalog.get("public", "k").oid
        names = db.engine.durability._checkpoints.names()
        assert [n for n in names if n.startswith(("history", "times"))] == [
            f"history-{oid}", "times"
        ]  # fmt: skip


def test_what_is_written_is_not_written_again(tmp_path, monkeypatch):
    monkeypatch.setattr(changelog, "BLOCK_BYTES", 1 << 14)
    with streamsql.connect(str(tmp_path / "d")) as db:
        db.execute("CREATE TABLE t (a BIGINT) WITH (retention = '1 hour')")
        oid = db.engine.catalog.get("public", "t").oid
        written = []
        for _ in range(3):
            db.execute("INSERT INTO t SELECT * FROM generate_series(1, 20000)")
            db.execute("DELETE FROM t")
            checkpoint(db)
            manifest = db.engine.durability._checkpoints._manifest
            entry = manifest.objects[f"history-{oid}"].tables["changes"]
            written.append({f.name: f.size for f in entry.files})
        for before, after in itertools.pairwise(written):
            assert before.items() <= after.items() and len(after) == len(before) + 1


# --- the log itself -------------------------------------------------------------------------------
COLUMNS = Schema.of(("a", BIGINT))


def delta(chance, version):
    n = chance.randrange(1, 4)
    batch = pa.RecordBatch.from_arrays(
        [pa.array([version * 10 + i for i in range(n)])], schema=COLUMNS.arrow
    )
    weights = np.array([chance.choice((-1, 1)) for _ in range(n)])
    return Delta(batch, None if chance.random() < 0.3 else weights)


def entries(found):
    return [(c.version, c.delta.batch.column(0).to_pylist(), c.delta.weights_or_ones().tolist())
            for c in found]  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_change_log_is_a_list_of_changes_however_it_is_cut(seed, monkeypatch):
    monkeypatch.setattr(changelog, "BLOCK_CHANGES", 5)
    chance = random.Random(seed)
    log, model, floor, version = ChangeLog(0), [], 0, 0
    for _ in range(150):
        version += chance.randrange(1, 3)
        made = delta(chance, version)
        log.append(version, made, Keep(None, 0))
        model.append((version, made))
        if chance.random() < 0.2:
            log.drop_last()
            model.pop()
        if chance.random() < 0.1:
            promised = max(0, version - chance.randrange(4, 30))
            log.trim(Keep(None, promised))
            while model and model[0][0] <= promised:
                floor = model.pop(0)[0]
        if chance.random() < 0.1:
            log = ChangeLog.load(log.save(), log.floor, COLUMNS)
        assert log.floor == floor and len(log) == len(model)
        assert log.newest == (model[-1][0] if model else floor)
        start, end = sorted(chance.randrange(floor, version + 2) for _ in range(2))
        want = [changelog.Change(v, d) for v, d in model if start < v <= end]
        assert entries(log.since(start, end)) == entries(want)
        later = [r for d in log.later(start) for r in d.batch.column(0).to_pylist()]
        assert sorted(later) == sorted(
            r for v, d in model if v > start for r in d.batch.column(0).to_pylist()
        )
    with pytest.raises(StreamSqlError, match="no longer retained"):
        log.since(floor - 1)
    doubled = log.converted(
        lambda b: pa.RecordBatch.from_arrays([pa.array([2 * x.as_py() for x in b.column(0)])],
                                             schema=COLUMNS.arrow)
    )  # fmt: skip
    assert [c.delta.batch.column(0).to_pylist() for c in doubled.since(floor)] == [
        [2 * x for x in d.batch.column(0).to_pylist()] for _, d in model
    ]
    log.trim(Keep(None, version))
    assert (len(log), log.nbytes) == (0, 0)
