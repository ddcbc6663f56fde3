"""CREATE MATERIALIZED VIEW over many rows: filled in slices while writes go on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from streamsql.core.errors import StreamSqlError
from streamsql.engine import heal, jobs, side_circuit
from streamsql.engine.database import Database
from streamsql.engine.statements import jobs as waiting
from tests.engine.test_recovery import abandon, opened
from tests.state.faulty_filesystem import MemoryFileSystem

SETUP = """
CREATE TABLE t (id INT PRIMARY KEY, g INT, v INT, ts TIMESTAMP, WATERMARK FOR ts AS ts);
CREATE TABLE d (g INT PRIMARY KEY, name TEXT);
INSERT INTO d SELECT i, 'n' || i FROM generate_series(0, 6) x(i);
INSERT INTO t SELECT i, i % 7, i % 13, timestamp '2024-01-01' + i * interval '1 second'
  FROM generate_series(0, 299) x(i)
"""
VIEWS = {
    "filter": "SELECT id, v FROM t WHERE v > 3",
    "aggregate": "SELECT g, count(*) AS n, sum(v) AS s, min(v) AS low FROM t GROUP BY g",
    "join": "SELECT t.id, d.name FROM t JOIN d USING (g)",
    "self_join": "SELECT a.id, b.id AS other FROM t a JOIN t b ON a.id = b.v",
    "outer": "SELECT d.name, t.id FROM d LEFT JOIN t ON t.id = d.g",
    "anti": "SELECT * FROM d WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.g = d.g AND t.v > 11)",
    "distinct": "SELECT DISTINCT v FROM t",
    "top": "SELECT id, v FROM t ORDER BY v DESC, id LIMIT 5",
    "over": "SELECT id, lag(v) OVER (PARTITION BY g ORDER BY id) AS b FROM t",
    "recursive": "WITH RECURSIVE r(n) AS (SELECT max(g) FROM t UNION ALL SELECT n - 1 FROM r "
    "WHERE n > 0) SELECT n FROM r",
    "tumble": "SELECT window_start, count(*) AS n FROM TUMBLE(t, ts, INTERVAL '1 minute') "
    "GROUP BY window_start",
    "final": "SELECT window_start, sum(v) AS n FROM TUMBLE(t, ts, INTERVAL '1 minute') "
    "GROUP BY window_start EMIT ON WINDOW CLOSE",
    "over_view": "SELECT s, count(*) AS n FROM base GROUP BY s",
    "no_input": "SELECT 1 AS one",
}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(jobs, "JOB_ROWS", 1)
    monkeypatch.setattr(side_circuit, "SLICE_ROWS", 100)


@pytest.fixture
def between(monkeypatch) -> Iterator[Callable[..., None]]:
    """Have something done (once each) after the first slices of a job, on the job's thread."""
    todo: list[Callable[[], None]] = []
    check = jobs.Job.check

    def checked(job):
        if todo:
            todo.pop(0)()
        check(job)

    monkeypatch.setattr(jobs.Job, "check", checked)

    def add(*steps: Callable[[], None]) -> None:
        todo.extend(steps)

    yield add
    assert not todo


def made(db: Database) -> Database:
    db.execute(SETUP)
    db.execute("SET background_ddl = off")
    return db


def writes(db: Database) -> list[Callable[[], None]]:
    """Changes of every kind, one a slice."""
    texts = (
        "INSERT INTO t VALUES (1000, 1, 12, '2024-01-01 00:06:00')",
        "UPDATE t SET v = v + 1 WHERE g = 2; DELETE FROM t WHERE id < 20",
        "INSERT INTO t VALUES (1001, 2, 5, '2024-01-01 00:00:01'), (1002, 9, 5, '2024-01-01 01:00')",
    )

    def step(text: str) -> Callable[[], None]:
        def run() -> None:
            session = db.session()
            session.execute(text)
            session.close()

        return run

    return [step(text) for text in texts]


def contents(db: Database, name: str) -> list[tuple[object, ...]]:
    return sorted(db.execute(f"SELECT * FROM {name}").fetchall(), key=repr)


@pytest.mark.parametrize("shape", VIEWS)
def test_view_is_what_it_would_be_had_it_been_there_before(shape, between, monkeypatch):
    files = MemoryFileSystem()
    db = made(opened(files))
    if shape == "over_view":
        monkeypatch.setattr(jobs, "JOB_ROWS", 10**9)
        db.execute("CREATE MATERIALIZED VIEW base AS SELECT g, sum(v) AS s FROM t GROUP BY g")
        monkeypatch.setattr(jobs, "JOB_ROWS", 1)
    monkeypatch.setattr(jobs, "JOB_ROWS", 10**9)
    db.execute(f"CREATE MATERIALIZED VIEW before AS {VIEWS[shape]}")
    monkeypatch.setattr(jobs, "JOB_ROWS", 0)
    if shape in ("filter", "aggregate", "join", "self_join", "distinct", "tumble", "final"):
        between(*writes(db))
    db.execute(f"CREATE MATERIALIZED VIEW made AS {VIEWS[shape]}")
    monkeypatch.setattr(jobs, "JOB_ROWS", 10**9)
    assert contents(db, "made") == contents(db, "before")
    for step in writes(db):
        try:
            step()
        except StreamSqlError as error:  # keys that are there already
            assert error.sqlstate == "23505"
    db.execute("DELETE FROM t WHERE id % 5 = 0")
    assert contents(db, "made") == contents(db, "before")
    expected = contents(db, "made")
    db.close()
    monkeypatch.setattr(heal, "fill_anew", None)  # the states fit the circuit
    db = opened(files)
    assert contents(db, "made") == expected
    db.execute("INSERT INTO t VALUES (2000, 3, 3, '2024-01-01 02:00'); DELETE FROM t WHERE g = 1")
    assert contents(db, "made") == contents(db, "before")
    db.execute("DROP MATERIALIZED VIEW made; DROP TABLE t, d CASCADE")
    left = [n for n in db.engine.circuit.nodes.values() if n.label[:6] != "values"]
    if shape != "no_input":
        assert not left
    db.close()


def test_new_writes_and_reads_go_on_meanwhile(db, rows, between):
    made(db)
    seen = []

    def look() -> None:
        seen.append(db.session().execute("SELECT count(*) FROM t").fetchall())
        state = db.session().execute(
            "SELECT kind, relation, state, rows_done, rows_estimated, progress, started IS NULL, "
            "statement FROM streamsql.jobs"
        )
        seen.append(state.fetchall())

    between(*writes(db)[:1], look)
    sql = "CREATE MATERIALIZED VIEW m AS SELECT sum(v) AS s FROM t"
    db.execute(sql)
    assert seen[0] == [(301,)]
    assert seen[1] == [("create materialized view", "m", "filling", 200, 300, 66.7, False, sql)]
    assert rows("SELECT * FROM m") == rows("SELECT sum(v) FROM t")
    assert rows("SELECT kind, state FROM streamsql.jobs") == [("materialized view", "running")]
    assert rows("SHOW JOBS LIKE 'm'") == rows("SHOW JOBS")


def nothing_left(db: Database) -> None:
    assert not db.engine.jobs.active and not db.engine.catalog.jobs
    assert db.execute("SHOW MATERIALIZED VIEWS").fetchall() == []
    assert len(db.engine.circuit.nodes) == 2
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n FROM t")
    assert db.execute("SELECT n FROM m").fetchall()[0][0] > 0


def test_cancel_of_the_statement_ends_the_job(db, between):
    made(db)
    session = db.session()
    stopped = threading.Event()

    def cancel() -> None:
        job = next(iter(db.engine.jobs.active.values()))
        session.cancel()
        while job.error is None:
            stopped.wait(0.001)

    between(cancel)
    with pytest.raises(StreamSqlError) as caught:
        session.execute("CREATE MATERIALIZED VIEW m AS SELECT id FROM t")
    assert caught.value.sqlstate == "57014"
    nothing_left(db)


def test_statement_timeout_ends_the_job(db, between):
    made(db)
    wait = threading.Event()
    session = db.session()
    session.execute("SET statement_timeout = '50ms'")
    session.token.add_waker(wait.set)
    between(lambda: wait.wait(10))
    with pytest.raises(StreamSqlError) as caught:
        session.execute("CREATE MATERIALIZED VIEW m AS SELECT id FROM t")
    assert caught.value.sqlstate == "57014"
    nothing_left(db)


def test_cancel_job_ends_what_another_session_waits_for(db, rows, between):
    made(db)

    def cancel() -> None:  # the job's own thread can not wait for itself
        number = next(iter(db.engine.jobs.active))
        thread = threading.Thread(target=db.session().execute, args=(f"CANCEL JOB {number}",))
        thread.start()
        while db.engine.jobs.active[number].error is None:
            thread.join(0.001)

    between(cancel)
    with pytest.raises(StreamSqlError) as caught:
        db.execute("CREATE MATERIALIZED VIEW m AS SELECT id FROM t")
    assert caught.value.sqlstate == "57014" and "CANCEL JOB" in caught.value.message
    nothing_left(db)
    with pytest.raises(StreamSqlError) as caught:
        db.execute("CANCEL JOB 77")
    assert caught.value.sqlstate == "42704"
    assert rows("CANCEL JOBS") == []


def test_in_the_background(db, rows, between):
    made(db)
    go = threading.Event()
    between(lambda: go.wait(10))
    db.execute("SET background_ddl = true")
    notice = db.execute("CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n FROM t").notices[0]
    assert "in the background" in notice.message and "CANCEL JOB" in notice.hint
    with pytest.raises(StreamSqlError) as caught:
        db.execute("CREATE TABLE m (a INT)")
    assert caught.value.sqlstate == "42P07" and "being created" in caught.value.message
    with pytest.raises(StreamSqlError) as caught:
        db.execute("SELECT * FROM m")
    assert caught.value.sqlstate == "42P01"
    job = next(iter(db.engine.jobs.active.values()))
    go.set()
    job.outcome.wait(20)
    assert rows("SELECT * FROM m") == [(300,)]


def test_drop_ends_the_job(db, rows, between):
    made(db)
    go = threading.Event()
    between(lambda: go.wait(10))
    db.execute("SET background_ddl = true; CREATE MATERIALIZED VIEW m AS SELECT id FROM t")
    job = next(iter(db.engine.jobs.active.values()))
    dropper = threading.Thread(target=db.session().execute, args=("DROP MATERIALIZED VIEW m",))
    dropper.start()
    while job.error is None:
        dropper.join(0.001)
    go.set()
    dropper.join(10)
    db.execute("SET background_ddl = false")
    nothing_left(db)


def meanwhile(db: Database, between, sql: str) -> Callable[[], list[object]]:
    """Run a statement in another session once the job works; waits until it waits for the job.
    Returns what gives its end: [None], or the error it ended with."""
    ended: list[object] = []

    def run() -> None:
        session = db.session()
        try:
            session.execute(sql)
            ended.append(None)
        except StreamSqlError as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    waits = threading.Event()
    watched = waiting.wait_for

    def wait_for(session, job):
        waits.set()
        waiting.wait_for = watched
        return watched(session, job)

    def step() -> None:
        waiting.wait_for = wait_for
        thread.start()
        assert waits.wait(10) and not ended

    between(step)

    def end() -> list[object]:
        thread.join(10)
        return ended

    return end


@pytest.mark.parametrize(
    ("change", "sqlstate"),
    [
        ("DROP TABLE d", "2BP01"),
        ("DROP TABLE t CASCADE", None),
        ("ALTER TABLE d RENAME TO e", None),
        ("ALTER TABLE d ADD COLUMN x INT DEFAULT 1", None),
        ("ALTER TABLE d DROP COLUMN name", "2BP01"),
        ("BEGIN; DROP TABLE d; COMMIT", "2BP01"),
    ],
)
def test_a_change_of_what_it_reads_waits_for_the_job(db, rows, between, change, sqlstate):
    made(db)
    end = meanwhile(db, between, change)
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT t.id, d.name FROM t JOIN d USING (g)")
    (error,) = end()
    assert sqlstate == (None if error is None else error.sqlstate)
    if "CASCADE" not in change:
        assert rows("SELECT count(*), count(name) FROM m") == [(300, 300)]
    assert not db.engine.jobs.active and not db.engine.catalog.jobs


def test_whoever_waits_for_a_job_can_be_cancelled(db, rows, between):
    made(db)
    other = db.session()
    ended = []

    def run() -> None:
        try:
            other.execute("DROP TABLE d")
        except StreamSqlError as error:
            ended.append(error.sqlstate)

    def step() -> None:
        thread = threading.Thread(target=run)
        thread.start()
        while not ended:
            other.cancel()
            thread.join(0.001)

    between(step)
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT t.id, d.name FROM t JOIN d USING (g)")
    assert ended == ["57014"] and rows("SELECT count(*) FROM m") == [(300,)]


def test_errors_of_the_definition_begin_no_job(db, fails):
    made(db)
    fails("CREATE MATERIALIZED VIEW m AS SELECT nope FROM t", "42703")
    fails("CREATE MATERIALIZED VIEW t AS SELECT id FROM t", "42P07")
    assert not db.engine.catalog.jobs
    db.execute("BEGIN; CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n FROM t; COMMIT")
    assert db.execute("SELECT * FROM m").fetchall() == [(300,)]


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_crash_in_the_middle(background, checkpoint, between):
    """In the background the job starts anew; what a session waited for has never begun."""
    files = MemoryFileSystem()
    db = made(opened(files))
    crashed = threading.Event()

    def crash() -> None:
        if checkpoint:
            db.engine.call(db.engine.durability.checkpoint)
        db.session().execute("INSERT INTO t VALUES (5000, 1, 1, '2024-01-01')")
        crashed.set()
        db.engine.jobs.active[job_id(db)].stop(StreamSqlError("the power fails"))
        db.engine.scheduler.stop()

    between(crash)
    db.execute(f"SET background_ddl = {background}")
    try:
        db.execute("CREATE MATERIALIZED VIEW m AS SELECT g, count(*) AS n FROM t GROUP BY g")
    except StreamSqlError:
        assert not background
    assert crashed.wait(10)
    abandon(db)
    files.crash()
    db = opened(files)
    for job in list(db.engine.jobs.active.values()):
        job.outcome.wait(20)
    found = db.execute("SHOW MATERIALIZED VIEWS").fetchall()
    if background:
        assert found == [("m",)]
        assert contents(db, "m")[1] == (1, 44)
    else:
        assert found == [] and not db.engine.catalog.jobs
        db.execute("CREATE MATERIALIZED VIEW m AS SELECT g, count(*) AS n FROM t GROUP BY g")
    assert db.execute("VERIFY MATERIALIZED VIEW m").fetchall() == []
    db.close()


def job_id(db: Database) -> int:
    return next(iter(db.engine.jobs.active))


def test_replay_gives_rows_the_time_they_had(between):
    files = MemoryFileSystem()
    db = made(opened(files))
    db.execute("SET streamsql.clock = 'manual'; ADVANCE CLOCK TO '2030-01-01 00:00:00+00'")

    def later() -> None:
        session = db.session()
        session.execute("ADVANCE CLOCK TO '2030-01-01 00:00:05+00'")
        session.execute("INSERT INTO t VALUES (5000, 1, 1, '2024-01-01')")
        session.execute("ADVANCE CLOCK TO '2030-01-01 00:00:09+00'")

    between(later)
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT id, now() AS seen FROM t")
    expected = contents(db, "m")
    assert len({seen for _, seen in expected}) == 2
    abandon(db)
    files.crash()
    db = opened(files)
    assert contents(db, "m") == expected
    db.close()


def test_errors_and_late_rows_of_the_job_are_on_record(db, rows, between):
    made(db)
    between(*writes(db)[:1], lambda: writes(db)[2]())
    db.execute("CREATE MATERIALIZED VIEW e AS SELECT id, 10 / v AS q FROM t WHERE g < 9")
    zeros = rows("SELECT count(*) FROM t WHERE v = 0 AND g < 9")[0][0]
    assert rows("SELECT count(*) FROM streamsql.view_errors WHERE view = 'e'") == [(zeros,)]
    db.execute(
        "CREATE MATERIALIZED VIEW w AS SELECT window_start, count(*) FROM "
        "TUMBLE(t, ts, INTERVAL '1 minute') GROUP BY window_start"
    )
    assert rows("SELECT view, source FROM streamsql.late_rows") == [("w", "t")]


SHARED = {
    "join": "SELECT t.id, d.name FROM t JOIN d USING (g) WHERE t.v > 2",
    "semi": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM d WHERE d.g = t.g)",
    "aggregate": "SELECT g, count(*) AS n, sum(v) AS s FROM t GROUP BY g",
    "on_aggregate": "SELECT a.g, a.n, d.name FROM (SELECT g, count(*) AS n FROM t GROUP BY g) a "
    "JOIN d USING (g)",
    "map": "SELECT id, v FROM t WHERE v > 3",
    "over": "SELECT id, lag(v) OVER (PARTITION BY g ORDER BY id) AS b FROM t",
}


@pytest.mark.parametrize("shape", SHARED)
def test_a_view_shares_what_older_views_have(shape, db, rows, between, monkeypatch):
    """The nodes are those of a view that was made at once; it goes on when the older one goes."""
    monkeypatch.setattr(jobs, "JOB_ROWS", 10**9)
    made(db)
    circuit = db.engine.circuit
    db.execute(f"CREATE MATERIALIZED VIEW older AS {SHARED[shape]}")
    other = SHARED[shape].replace("SELECT ", "SELECT 1 + 1 AS two, ", 1)
    db.execute(f"CREATE MATERIALIZED VIEW twin AS {other}")
    wanted = sorted(n.operator.name for n in circuit.nodes.values())
    db.execute("DROP MATERIALIZED VIEW twin")
    monkeypatch.setattr(jobs, "JOB_ROWS", 1)
    between(*writes(db)[:2])
    db.execute(f"CREATE MATERIALIZED VIEW twin AS {other}")
    if shape != "over":  # keeps where rows stand, which only its own arrangement knows
        assert sorted(n.operator.name for n in circuit.nodes.values()) == wanted
    writes(db)[2]()
    for view in ("older", "twin"):
        assert rows(f"VERIFY MATERIALIZED VIEW {view}") == []
    db.execute("DROP MATERIALIZED VIEW older; UPDATE t SET v = v + 3, g = g + 1 WHERE id > 100")
    assert rows("VERIFY MATERIALIZED VIEW twin") == []
    db.execute("DROP TABLE t, d CASCADE")
    assert not circuit.nodes


def test_shared_nodes_are_shared_after_a_restart(between, monkeypatch):
    files = MemoryFileSystem()
    db = made(opened(files))
    for i, shape in enumerate(("join", "aggregate", "on_aggregate", "join", "semi")):
        db.execute(f"CREATE MATERIALIZED VIEW v{i} AS {SHARED[shape]}")
    labels = sorted(n.label for n in db.engine.circuit.nodes.values())
    assert sum("arrange" in label for label in labels) <= 4
    for close in (False, True):
        if close:
            db.close()
            monkeypatch.setattr(heal, "fill_anew", None)
        else:
            abandon(db)
            files.crash()
        db = opened(files)
        assert sorted(n.label for n in db.engine.circuit.nodes.values()) == labels
        writes(db)[int(close)]()
        for i in range(5):
            assert db.execute(f"VERIFY MATERIALIZED VIEW v{i}").fetchall() == []
    db.close()
