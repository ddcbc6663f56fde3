"""Sources and tables fed by connectors: reading, errors, several views, restarts."""

from __future__ import annotations

import pytest

from streamsql.engine.database import Database
from tests.engine.test_recovery import abandon
from tests.state.faulty_filesystem import MemoryFileSystem

COLUMNS = "id INT, v INT NOT NULL, ts TIMESTAMP, twice INT AS (id * 2), WATERMARK FOR ts AS ts"


@pytest.fixture
def csv(tmp_path):
    """A folder that is followed; a function adds rows to a file of it."""

    def add(name: str, *rows: str) -> None:
        with open(tmp_path / name, "a") as file:
            file.write("".join(f"{r}\n" for r in rows))

    add.options = (
        f"WITH (connector = 'file', path = '{tmp_path}', follow = 'true') "
        "FORMAT PLAIN ENCODE CSV (header = false)"
    )
    return add


@pytest.fixture
def source(db, csv):
    csv("a.csv", "1,1,2024-01-01 00:00:00", "2,1,2024-01-01 00:10:00", "3,2,2024-01-01 00:01:00")
    db.execute(f"CREATE SOURCE s ({COLUMNS}) {csv.options}")
    return db


def test_source_waits_for_its_first_view_and_then_goes_on(source, csv, rows):
    assert rows("SELECT id, twice FROM s") == [(1, 2), (2, 4), (3, 6)]
    assert rows("SELECT status, rows FROM streamsql.sources") == [("starting", 0)]
    source.execute("CREATE MATERIALIZED VIEW m AS SELECT v, sum(twice) AS s FROM s GROUP BY v")
    source.execute("FLUSH")
    assert rows("SELECT * FROM m") == [(1, 6), (2, 6)]
    csv("b.csv", "4,2,2024-01-01 00:20:00")
    source.execute("FLUSH")
    assert rows("SELECT * FROM m") == [(1, 6), (2, 14)]


def test_later_view_over_a_source_starts_at_its_beginning(source, csv, rows):
    window = (
        "CREATE MATERIALIZED VIEW {} AS SELECT window_start, count(*) AS n "
        "FROM TUMBLE(s, ts, INTERVAL '1 minute') GROUP BY window_start"
    )
    source.execute(window.format("one"))
    source.execute("FLUSH")
    csv("b.csv", "4,2,2024-01-01 00:20:00", "5,2,2024-01-01 00:02:00")
    source.execute("FLUSH")
    source.execute(window.format("two").replace("count(*)", "sum(1)"))
    assert len(rows("SELECT * FROM one")) == 3
    assert rows("SELECT * FROM two") == rows("SELECT * FROM one")
    late = rows("SELECT view, event_time::text FROM streamsql.late_rows")
    assert [r for r in late if r[0] == "one"] == [
        ("one", "2024-01-01 00:01:00"), ("one", "2024-01-01 00:02:00")
    ]  # fmt: skip


def test_bad_rows_are_recorded_and_the_stream_goes_on(source, csv, rows):
    csv("a.csv", "x,1,2024-01-01 00:00:00", "7,,2024-01-01 00:00:00", "8,8,2024-01-01 00:30:00")
    source.execute("CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n FROM s")
    source.execute("FLUSH")
    assert rows("SELECT n FROM m") == [(4,)]
    reasons = [r for (r,) in rows("SELECT reason FROM streamsql.source_errors")]
    assert len(reasons) == 2
    assert any('null value in column "v"' in r for r in reasons)
    assert any("invalid input syntax for type integer" in r for r in reasons)


def test_on_error_fail_stops_the_source(db, csv, rows):
    csv("a.csv", "x,1,2024-01-01 00:00:00")
    options = csv.options.replace("WITH (", "WITH (on_error = 'fail', ")
    db.execute(f"CREATE TABLE t ({COLUMNS}) {options}")
    db.execute("FLUSH")
    assert rows("SELECT status FROM streamsql.sources") == [("failed",)]


def test_on_error_fail_delivers_what_stands_before_the_bad_row_and_flush_says_so(db, csv, rows):
    csv("a.csv", "1,1,2024-01-01 00:00:00", "2,,2024-01-01 00:00:01", "3,3,2024-01-01 00:00:02")
    options = csv.options.replace("WITH (", "WITH (on_error = 'fail', ")
    db.execute(f"CREATE TABLE t ({COLUMNS}) {options}")
    (notice,) = db.execute("FLUSH").notices
    assert notice.severity == "WARNING"
    assert notice.message.startswith('table "t" has stopped reading: row refused: null value in')
    assert notice.hint == "Correct what it reads, then ALTER TABLE t SUSPEND and RESUME."
    assert rows("SELECT id FROM t") == [(1,)]


def test_source_that_was_stopped_goes_on_at_the_row_that_was_corrected(db, csv, rows, tmp_path):
    csv("a.csv", "1,1,2024-01-01 00:00:00", "x,2,2024-01-01 00:00:01", "3,3,2024-01-01 00:00:02")
    options = csv.options.replace("WITH (", "WITH (on_error = 'fail', ")
    db.execute(f"CREATE TABLE t ({COLUMNS}) {options}")
    db.execute("FLUSH")
    (path,) = tmp_path.rglob("a.csv")
    path.write_text(path.read_text().replace("x,2", "2,2"))
    db.execute("ALTER TABLE t SUSPEND")
    db.execute("ALTER TABLE t RESUME")
    assert db.execute("FLUSH").notices == []
    assert rows("SELECT id FROM t ORDER BY id") == [(1,), (2,), (3,)]


def test_table_with_connector_overwrites_by_key_and_takes_dml(db, csv, rows):
    csv("a.csv", "1,1,2024-01-01 00:00:00", "1,2,2024-01-01 00:00:01", "2,5,2024-01-01 00:00:02")
    db.execute(f"CREATE TABLE t ({COLUMNS}, PRIMARY KEY (id)) {csv.options}")
    db.execute("FLUSH")
    assert rows("SELECT id, v FROM t") == [(1, 2), (2, 5)]
    db.execute("DELETE FROM t WHERE id = 1")
    csv("a.csv", "3,3,2024-01-01 00:00:03")
    db.execute("FLUSH")
    assert rows("SELECT id, v FROM t") == [(2, 5), (3, 3)]


def test_dropping_a_source_stops_its_reader(source, rows):
    source.execute("CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n FROM s")
    reader = next(iter(source.engine.sources.values()))
    source.execute("DROP SOURCE s CASCADE")
    assert not reader._thread.is_alive()
    assert rows("SELECT * FROM streamsql.sources") == []


def test_wrong_options_fail_the_create(db, fails):
    fails(f"CREATE SOURCE s ({COLUMNS}) WITH (connector = 'nope')", "0A000")
    fails(f"CREATE SOURCE s ({COLUMNS}) WITH (connector = 'file')", "22023")
    fails(f"CREATE SOURCE s ({COLUMNS})", "42601")
    assert db.execute("SHOW SOURCES").fetchall() == []


@pytest.mark.parametrize("clean", [True, False])
def test_restart_goes_on_with_the_very_next_row(csv, clean):
    files = MemoryFileSystem()
    csv("a.csv", *(f"{i},{i % 3},2024-01-01 00:00:{i:02d}" for i in range(10)))
    db = Database("data", files=files)
    db.execute(f"CREATE SOURCE s ({COLUMNS}) {csv.options}")
    db.execute(f"CREATE TABLE t ({COLUMNS}) {csv.options}")
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n, sum(id) AS s FROM s")
    db.execute("FLUSH")
    version = db.version
    if clean:
        db.close()
    else:
        abandon(db)
        files.crash()
    csv("a.csv", *(f"{i},{i % 3},2024-01-01 00:00:{i:02d}" for i in range(10, 20)))
    with Database("data", files=files) as again:
        assert again.version >= version
        again.execute("FLUSH")
        assert again.execute("SELECT * FROM m").fetchall() == [(20, 190)]
        assert again.execute("SELECT count(*), sum(id) FROM t").fetchall() == [(20, 190)]
        again.execute("CREATE MATERIALIZED VIEW m2 AS SELECT count(*) AS n FROM s")
        assert again.execute("SELECT * FROM m2").fetchall() == [(20,)]


def test_subscribe_to_a_source(source, csv):
    with source.subscribe("SELECT id FROM s WHERE id > 2") as stream:
        ids = []
        while len(ids) < 1:
            ids += [r["id"] for b in stream.poll(1) for r in b.to_pylist()]
        csv("b.csv", "9,9,2024-01-01 00:40:00")
        while len(ids) < 2:
            ids += [r["id"] for b in stream.poll(1) for r in b.to_pylist()]
        assert ids == [3, 9]
