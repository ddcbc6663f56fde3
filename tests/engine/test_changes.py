"""Changes of what is there, over many rows: made beside the engine while writes go on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from streamsql.core.errors import StreamSqlError
from streamsql.engine import heal, jobs, side_check, side_circuit, side_table
from streamsql.engine.database import Database
from tests.engine.test_recovery import abandon, opened
from tests.state.faulty_filesystem import MemoryFileSystem

SETUP = """
CREATE TABLE t (id INT PRIMARY KEY, g INT, v INT, s TEXT);
INSERT INTO t SELECT i, i % 7, i % 13, 'x' || i % 5 FROM generate_series(0, 299) x(i);
CREATE MATERIALIZED VIEW a AS SELECT g, count(*) AS n, sum(v) AS s FROM t GROUP BY g;
CREATE MATERIALIZED VIEW b AS SELECT n, count(*) AS groups, max(s) AS top FROM a GROUP BY n;
CREATE VIEW p AS SELECT id, v FROM t WHERE v > 2;
CREATE MATERIALIZED VIEW c AS SELECT count(*) AS k FROM p;
CREATE INDEX ai ON a (s);
CREATE INDEX tv ON t (v)
"""
CHANGES = {
    "replace": "CREATE OR REPLACE MATERIALIZED VIEW a AS "
    "SELECT g, count(*) AS n, sum(v) + 1 AS s FROM t WHERE v <> 5 GROUP BY g",
    "replace_by_itself": "CREATE OR REPLACE MATERIALIZED VIEW a AS "
    "SELECT g, count(*) AS n, sum(v) AS s FROM t GROUP BY g",
    "replace_columns": "CREATE OR REPLACE MATERIALIZED VIEW a AS "
    "SELECT g, count(*) AS n, sum(v) AS s, min(id) AS low FROM t GROUP BY g",
    "replace_suspended": "CREATE OR REPLACE MATERIALIZED VIEW a AS "
    "SELECT g, count(*) AS n, max(v) AS s FROM t GROUP BY g",
    "replace_plain": "CREATE OR REPLACE VIEW p AS SELECT id, v FROM t WHERE v > 4",
    "resume": "ALTER MATERIALIZED VIEW a RESUME",
    "add": "ALTER TABLE t ADD COLUMN x INT NOT NULL DEFAULT 5",
    "add_generated": "ALTER TABLE t ADD COLUMN x INT GENERATED ALWAYS AS (v * 2) STORED",
    "add_random": "ALTER TABLE t ADD COLUMN x UUID DEFAULT gen_random_uuid()",
    "drop": "ALTER TABLE t DROP COLUMN s",
    "drop_not_null": "ALTER TABLE t ALTER COLUMN v DROP NOT NULL",
    "type": "ALTER TABLE t ALTER COLUMN s TYPE INT USING length(s) + id",
    "type_indexed": "ALTER TABLE t ALTER COLUMN id TYPE BIGINT",
    "check": "ALTER TABLE t ADD CHECK (id + v >= 0)",
    "unique_constraint": "ALTER TABLE t ADD UNIQUE (v, id)",
    "several": "ALTER TABLE t ADD COLUMN x INT DEFAULT 7, DROP COLUMN s, ADD COLUMN y INT "
    "GENERATED ALWAYS AS (x + v) STORED, ADD CHECK (x > y - 10000), ADD UNIQUE (x, id)",
    "index": "CREATE INDEX ts ON t (s, id)",
    "unique": "CREATE UNIQUE INDEX tu ON t (v, id)",
    "view_index": "CREATE INDEX an ON a (n)",
}
BEFORE = {
    "resume": "ALTER MATERIALIZED VIEW a SUSPEND; UPDATE t SET v = v + 1 WHERE g = 3",
    "replace_suspended": "ALTER MATERIALIZED VIEW a SUSPEND; UPDATE t SET v = v + 1 WHERE g = 3",
    "drop_not_null": "ALTER TABLE t ALTER COLUMN v SET NOT NULL",
    "type_indexed": "DROP VIEW p CASCADE; CREATE VIEW p AS SELECT v, g FROM t; "
    "CREATE MATERIALIZED VIEW c AS SELECT sum(v) AS k FROM p; CREATE INDEX ti ON t (g, (id + 1))",
}
WRITES = (
    "INSERT INTO t (id, g, v) VALUES (1000, 1, 12)",
    "UPDATE t SET v = v + 1 WHERE g = 2; DELETE FROM t WHERE id < 20",
    "INSERT INTO t (id, g, v) VALUES (1001, 2, 5), (1002, 9, 5); DELETE FROM t WHERE id = 1000",
)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(jobs, "JOB_ROWS", 10**9)
    for room in (side_circuit, side_table, side_check):
        monkeypatch.setattr(room, "SLICE_ROWS", 100)


@pytest.fixture
def beside(monkeypatch) -> Iterator[Callable[..., None]]:
    """From now on every change is a job; have something done (once each) after its first slices,
    on its thread."""
    todo: list[Callable[[], None]] = []
    check = jobs.Job.check

    def checked(job):
        if todo:
            todo.pop(0)()
        check(job)

    monkeypatch.setattr(jobs.Job, "check", checked)

    def add(*steps: Callable[[], None]) -> None:
        monkeypatch.setattr(jobs, "JOB_ROWS", 1)
        todo.extend(steps)

    yield add
    assert not todo


def running(db: Database, sql: str) -> Callable[[], None]:
    def run() -> None:
        session = db.session()
        session.execute(sql)
        session.close()

    return run


def contents(db: Database, *, random: bool = False) -> list[list[str]]:
    """All rows of everything; random: without the values of `x`, only whether they differ."""
    columns = "id, g, v, s" if random else "*"
    session = db.session()
    found = [session.execute(f"SELECT {columns} FROM t").fetchall()]
    if random:
        found.append(session.execute("SELECT count(DISTINCT x) = count(*) FROM t").fetchall())
    found += [session.execute(f"SELECT * FROM {name}").fetchall() for name in ("a", "b", "c", "p")]
    session.close()
    return [sorted(map(repr, rows)) for rows in found]


def whole(db: Database) -> None:
    """Views are their queries; look-ups by an index find what is there; the state fits."""
    for name in ("a", "b", "c"):
        assert db.execute(f"VERIFY MATERIALIZED VIEW {name}").fetchall() == []
    for v in (3, 5, 6):
        found = db.execute(f"SELECT id FROM t WHERE v = {v}").fetchall()
        assert sorted(found) == sorted(db.execute(f"SELECT id FROM t WHERE v + 0 = {v}").fetchall())
    (top,) = db.execute("SELECT max(s) FROM a").fetchall()
    assert db.execute(f"SELECT s FROM a WHERE s = {top[0]}").fetchall()
    assert not db.engine.jobs.active and not db.engine.catalog.jobs


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_beside_is_what_it_would_be_at_once(change, beside, monkeypatch):
    files = MemoryFileSystem()
    db, twin = opened(files), opened(MemoryFileSystem())
    random = "random" in change
    for each in (db, twin):
        each.execute(SETUP)
        each.execute(BEFORE.get(change, "SELECT 1"))
    versions = db.engine.version
    twin.execute(CHANGES[change])
    for sql in WRITES:
        twin.execute(sql)
    beside(*(running(db, sql) for sql in WRITES))
    db.execute(CHANGES[change])
    monkeypatch.setattr(jobs, "JOB_ROWS", 10**9)
    started = 1 if db.engine.version == versions + 7 else 0  # a job of views is in the log
    assert db.engine.version == versions + 6 + started
    for each in (db, twin):
        each.execute("UPDATE t SET v = v + 2 WHERE g = 4; DELETE FROM t WHERE id % 3 = 0")
    assert contents(db, random=random) == contents(twin, random=random)
    whole(db)
    before = contents(db)
    abandon(db)
    files.crash()
    db = opened(files)  # from the log alone
    assert contents(db) == before
    whole(db)
    db.close()
    monkeypatch.setattr(heal, "fill_anew", None)  # the states fit the circuit
    db = opened(files)
    assert contents(db) == before
    db.execute("INSERT INTO t (id, g, v) VALUES (3000, 3, 3); DELETE FROM t WHERE g = 1")
    whole(db)
    db.execute("DROP TABLE t CASCADE")
    assert not [n for n in db.engine.circuit.nodes.values() if n.label[:6] != "values"]
    db.close()
    twin.close()


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_a_crash_in_the_middle_leaves_the_old_state(change, checkpoint, beside):
    files = MemoryFileSystem()
    db = opened(files)
    db.execute(SETUP)
    db.execute(BEFORE.get(change, "SELECT 1"))
    crashed = threading.Event()
    old: list[list[list[str]]] = []

    def crash() -> None:
        running(db, WRITES[0])()
        if checkpoint:
            db.engine.call(db.engine.durability.checkpoint)
        running(db, WRITES[1])()
        old.append(contents(db))
        crashed.set()
        next(iter(db.engine.jobs.active.values())).stop(StreamSqlError("the power fails"))
        db.engine.scheduler.stop()

    beside(crash)
    with pytest.raises(StreamSqlError):
        db.execute(CHANGES[change])
    assert crashed.wait(10)
    definitions = {r.name: (r.sql, r.columns) for r in db.engine.catalog.user_relations()}
    abandon(db)
    files.crash()
    db = opened(files)
    assert {r.name: (r.sql, r.columns) for r in db.engine.catalog.user_relations()} == definitions
    assert contents(db) == old[0]
    db.execute(CHANGES[change])
    whole(db)
    db.close()


@pytest.mark.parametrize("change", CHANGES)
def test_a_cancelled_change_leaves_nothing(change, db, beside):
    db.execute(SETUP)
    db.execute(BEFORE.get(change, "SELECT 1"))
    nodes = sorted(n.label for n in db.engine.circuit.nodes.values())
    definitions = list(db.engine.catalog.user_relations())
    session = db.session()
    seen: list[object] = []

    def cancel() -> None:
        rows = db.session().execute("SELECT kind, state, rows_estimated > 0, statement "
                                    "FROM streamsql.jobs WHERE progress IS NOT NULL").fetchall()  # fmt: skip
        seen.extend(rows)
        session.cancel()
        job = next(iter(db.engine.jobs.active.values()))
        while job.error is None:
            threading.Event().wait(0.001)

    beside(running(db, WRITES[0]), cancel)
    with pytest.raises(StreamSqlError) as caught:
        session.execute(CHANGES[change])
    assert caught.value.sqlstate == "57014"
    ((kind, state, estimated, statement),) = seen
    assert kind.split()[0] in ("replace", "resume", "alter", "create") and state == "filling"
    assert estimated and statement == CHANGES[change]
    assert sorted(n.label for n in db.engine.circuit.nodes.values()) == nodes
    assert list(db.engine.catalog.user_relations()) == definitions
    store = db.engine.tables[db.engine.catalog.get("public", "t").oid].store
    assert not store.on_apply and len(store.on_move) == 1 + (change == "type_indexed")
    if change in ("resume", "replace_suspended"):
        db.execute(CHANGES[change])
    whole(db)


def test_subscribers_see_the_difference_in_one_version(db, beside):
    db.execute(SETUP)
    stream = db.subscribe("a")
    beside(*(running(db, sql) for sql in WRITES))
    before = dict(db.execute("SELECT g, s FROM a").fetchall())
    assert before
    db.execute(CHANGES["replace"])
    log = db.engine.views[db.engine.catalog.get("public", "a").oid].log
    assert log.newest == db.engine.version
    stream.close()


def test_rows_of_older_versions_stay_readable(db, rows, beside):
    db.execute(SETUP)
    version = db.engine.version
    before = rows("SELECT * FROM a ORDER BY g"), rows("SELECT * FROM b ORDER BY n")
    beside(*(running(db, sql) for sql in WRITES))
    db.execute(CHANGES["replace"])
    at = f"FOR SYSTEM_TIME AS OF {version}"
    assert rows(f"SELECT * FROM a {at} ORDER BY g") == before[0]
    assert rows(f"SELECT * FROM b {at} ORDER BY n") == before[1]


@pytest.mark.parametrize(
    ("change", "write", "sqlstate"),
    [
        ("CREATE UNIQUE INDEX u ON t (g, s)", "SELECT 1", "23505"),
        ("CREATE UNIQUE INDEX u ON t (id, v)", "SELECT 1", None),
        ("CREATE INDEX u ON t ((10 / (v - 100)))", "INSERT INTO t (id, v) VALUES (999, 100)",
         "22012"),
        ("ALTER TABLE t ADD CHECK (v < 100)", "INSERT INTO t (id, v) VALUES (999, 100)", "23514"),
        ("ALTER TABLE t ADD UNIQUE (s, g)", "SELECT 1", "23505"),
        ("ALTER TABLE t ADD UNIQUE (g, v, s)",
         "INSERT INTO t SELECT 999, g, v, s FROM t WHERE id = 7", "23505"),
        ("ALTER TABLE t ALTER COLUMN s TYPE INT USING 1 / (v - 100)",
         "INSERT INTO t (id, v) VALUES (999, 100)", "22012"),
        ("ALTER TABLE t ADD COLUMN x INT GENERATED ALWAYS AS (10 / (v - 100)) STORED",
         "INSERT INTO t (id, v) VALUES (999, 100)", "22012"),
        ("ALTER TABLE t ADD COLUMN x INT NOT NULL GENERATED ALWAYS AS (g) STORED",
         "INSERT INTO t (id, v) VALUES (999, 100)", "23502"),
    ],
)  # fmt: skip
def test_rows_that_come_meanwhile_are_asked_too(db, beside, change, write, sqlstate):
    db.execute(SETUP)
    beside(running(db, write))
    if sqlstate is None:
        db.execute(change)
    else:
        with pytest.raises(StreamSqlError) as caught:
            db.execute(change)
        assert caught.value.sqlstate == sqlstate
    whole(db)


def test_a_duplicate_that_goes_meanwhile_is_none(db, beside):
    db.execute(SETUP)
    db.execute("CREATE TABLE q (a INT); INSERT INTO q SELECT i FROM generate_series(1, 300) x(i)")
    beside(
        running(db, "INSERT INTO q VALUES (7)"),
        running(db, "DELETE FROM q WHERE a = 7; INSERT INTO q VALUES (7), (NULL), (NULL)"),
    )
    db.execute("CREATE UNIQUE INDEX u ON q (a)")
    with pytest.raises(StreamSqlError) as caught:
        db.execute("INSERT INTO q VALUES (7)")
    assert caught.value.sqlstate == "23505"


def test_keys_that_become_equal_by_another_type_are_refused(db, rows, beside):
    db.execute("CREATE TABLE k (a INT PRIMARY KEY, b INT UNIQUE)")
    db.execute("INSERT INTO k SELECT i, i FROM generate_series(1, 300) x(i)")
    for large in (False, True):
        if large:
            beside()
        for column in ("a", "b"):
            with pytest.raises(StreamSqlError) as caught:
                db.execute(f"ALTER TABLE k ALTER COLUMN {column} TYPE BIGINT USING {column} / 2")
            assert caught.value.sqlstate == "23505"
        db.execute("ALTER TABLE k ALTER COLUMN a TYPE BIGINT USING 1000 - a")
        assert rows("SELECT b FROM k WHERE a = 995") == [(5,)]
        db.execute("ALTER TABLE k ALTER COLUMN a TYPE INT USING 1000 - a")
        with pytest.raises(StreamSqlError) as caught:
            db.execute("INSERT INTO k VALUES (5, 1000)")
        assert caught.value.sqlstate == "23505"


def test_a_write_that_was_bound_before_a_constraint_is_asked_again(db, rows):
    db.execute("CREATE TABLE k (a INT, b INT)")
    session = db.session()
    session.execute("PREPARE p AS INSERT INTO k VALUES ($1, 1)")
    session.execute("EXECUTE p (-1)")
    session.execute("DELETE FROM k")
    session.execute("BEGIN; INSERT INTO k VALUES (-2, 1)")
    db.execute("ALTER TABLE k ADD CHECK (a > 0)")
    with pytest.raises(StreamSqlError) as caught:
        session.execute("COMMIT")
    assert caught.value.sqlstate == "40001"
    with pytest.raises(StreamSqlError) as caught:
        session.execute("EXECUTE p (-1)")
    assert caught.value.sqlstate == "23514"
    assert rows("SELECT * FROM k") == []
