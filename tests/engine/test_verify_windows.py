"""VERIFY of views whose rows depend on the watermark."""

import pytest

import streamsql
from streamsql.core.errors import FeatureNotSupported
from streamsql.engine.database import Database
from tests.engine.test_recovery import abandon
from tests.state.faulty_filesystem import MemoryFileSystem

MINUTES = (
    "SELECT window_start, count(*) AS n FROM TUMBLE(ev, ts, INTERVAL '1 minute') "
    "GROUP BY window_start"
)


def filled() -> streamsql.Database:
    db = streamsql.connect()
    db.execute("CREATE TABLE ev (ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds')")
    db.execute(f"CREATE MATERIALIZED VIEW live AS {MINUTES}")
    db.execute(f"CREATE MATERIALIZED VIEW final AS {MINUTES} EMIT ON WINDOW CLOSE")
    for time in ("10:00:10", "10:01:30", "10:00:20", "10:02:40", "10:01:50"):
        db.execute(f"INSERT INTO ev VALUES ('2024-06-01 {time}')")
    return db


def test_late_rows_and_open_windows_are_no_differences() -> None:
    with filled() as db:
        assert db.execute("SELECT n FROM live ORDER BY window_start").fetchall() == [
            (1,),
            (1,),
            (1,),
        ]
        assert db.execute("SELECT n FROM final ORDER BY window_start").fetchall() == [(1,), (1,)]
        for view in ("live", "final"):
            assert db.execute(f"VERIFY MATERIALIZED VIEW {view}").fetchall() == []


def test_a_wrong_row_is_found_with_its_weight() -> None:
    with filled() as db:
        for name in ("live", "final"):
            view = next(v for v in db.engine.views.values() if v.relation.name == name)
            right = view.contents()
            view.store.clear()
            view.store.apply(right.take([0]))
            lost = db.execute(f"VERIFY MATERIALIZED VIEW {name}").fetchall()
            assert {weight for weight, _ in lost} == {-1}
            assert len(lost) == right.num_rows - 1


def test_view_definition_says_when_windows_are_emitted() -> None:
    with filled() as db:
        text = db.execute("SELECT pg_get_viewdef('final'::regclass)").fetchall()[0][0]
        assert text.endswith("EMIT ON WINDOW CLOSE;")


def test_rows_too_late_for_partners_are_no_differences() -> None:
    with streamsql.connect() as db:
        for table in ("a", "b"):
            db.execute(f"CREATE TABLE {table} (k INT, id INT, t TIMESTAMP, WATERMARK FOR t AS t)")
        db.execute(
            "CREATE MATERIALIZED VIEW near AS SELECT a.id AS a, b.id AS b FROM a JOIN b ON "
            "a.t BETWEEN b.t AND b.t + INTERVAL '1 minute' AND a.k = b.k"
        )
        db.execute("INSERT INTO b VALUES (7, 1, '2024-06-01 10:00')")
        db.execute("INSERT INTO a VALUES (7, 1, '2024-06-01 10:00:30'), (7, 2, '2024-06-01 11:00')")
        db.execute("INSERT INTO a VALUES (7, 3, '2024-06-01 10:00:20')")  # b is behind it
        db.execute("INSERT INTO b VALUES (8, 2, '2024-06-01 11:00')")
        db.execute("INSERT INTO a VALUES (7, 4, '2024-06-01 10:00:20')")
        assert sorted(db.execute("SELECT * FROM near").fetchall()) == [(1, 1), (3, 1)]
        assert len(db.execute("SELECT * FROM streamsql.late_rows").fetchall()) == 1
        assert db.execute("VERIFY MATERIALIZED VIEW near").fetchall() == []


def test_windows_over_a_join_are_no_alarm() -> None:
    """Which row of the other side came first decides which pairs are late, and is kept."""
    with streamsql.connect() as db:
        for table in ("a", "b"):
            db.execute(f"CREATE TABLE {table} (k INT, t TIMESTAMP, WATERMARK FOR t AS t)")
        db.execute(
            "CREATE MATERIALIZED VIEW pairs AS SELECT window_start, count(*) AS n FROM TUMBLE("
            "(SELECT a.k, a.t FROM a JOIN b USING (k)), t, INTERVAL '1 minute') GROUP BY 1"
        )
        db.execute("INSERT INTO a VALUES (1, '2024-06-01 10:00:10')")
        db.execute("INSERT INTO b VALUES (1, '2024-06-01 10:00:20')")
        assert db.execute("VERIFY MATERIALIZED VIEW pairs").fetchall() == []
        db.execute("INSERT INTO a VALUES (2, '2024-06-01 10:05')")
        db.execute("INSERT INTO b VALUES (2, '2024-06-01 10:05')")
        db.execute("INSERT INTO b VALUES (1, '2024-06-01 10:05')")
        assert db.execute("SELECT sum(n) FROM pairs").fetchall() == [(2,)]
        assert db.execute("VERIFY MATERIALIZED VIEW pairs").fetchall() == []
        db.engine.past.starts.clear()
        with pytest.raises(FeatureNotSupported, match="all inputs"):
            db.execute("VERIFY MATERIALIZED VIEW pairs")


def test_rows_that_went_too_late_are_no_differences() -> None:
    """A closed window keeps a row that its table let go of: the replay knows of it."""
    files = MemoryFileSystem(1)
    db = Database("data", files=files)
    db.execute(
        "CREATE TABLE ev (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds')"
    )
    db.execute(
        "CREATE MATERIALIZED VIEW hops AS SELECT window_end, count(*) AS n FROM HOP(ev, ts, "
        "INTERVAL '1 minute', INTERVAL '2 minutes') GROUP BY window_end"
    )
    db.execute(
        "CREATE MATERIALIZED VIEW visits AS SELECT window_end, count(*) AS n FROM SESSION(ev, ts, "
        "INTERVAL '20 seconds') GROUP BY window_end EMIT ON WINDOW CLOSE"
    )
    db.execute("CREATE MATERIALIZED VIEW named AS SELECT ts, id FROM ev WHERE id > 0")
    db.execute(f"CREATE MATERIALIZED VIEW above AS {MINUTES.replace('(ev', '(named')}")
    views = ("hops", "visits", "above")
    for second in (10, 20, 90, 75, 200):
        time = f"2024-06-01 10:0{second // 60}:{second % 60:02d}"
        db.execute(f"INSERT INTO ev VALUES ({second}, '{time}')")
    db.execute("DELETE FROM ev WHERE id = 20")
    db.execute("UPDATE ev SET ts = ts + INTERVAL '2 minutes' WHERE id = 90")
    kept = [db.execute(f"SELECT * FROM {v} ORDER BY 1").fetchall() for v in views]
    for end in ("", "close", "crash"):
        if end:
            db.close() if end == "close" else abandon(db)
            files.crash()
            db = Database("data", files=files)
        assert [db.execute(f"SELECT * FROM {v} ORDER BY 1").fetchall() for v in views] == kept
        for view in views:
            assert db.execute(f"VERIFY MATERIALIZED VIEW {view}").fetchall() == []
    db.execute("CREATE MATERIALIZED VIEW anew AS " + MINUTES)  # it never saw what went
    assert db.execute("VERIFY MATERIALIZED VIEW anew").fetchall() == []
    view = next(v for v in db.engine.views.values() if v.relation.name == "hops")
    view.store.clear()
    assert len(db.execute("VERIFY MATERIALIZED VIEW hops").fetchall()) == len(kept[0])
    db.close()


def test_operators_of_a_view_that_was_dropped_are_no_alarm() -> None:
    """What the first of two views saw is in the other one: where that matters, VERIFY says so."""
    with streamsql.connect() as db:
        db.execute(
            "CREATE TABLE a (k INT, t TIMESTAMP, WATERMARK FOR t AS t); CREATE TABLE u (k INT)"
        )
        query = (
            "SELECT window_start, count(*) AS n FROM TUMBLE((SELECT t FROM a JOIN u USING (k)), t, "
            "INTERVAL '1 minute') GROUP BY 1"
        )
        db.execute(f"CREATE MATERIALIZED VIEW first AS {query}")
        db.execute("INSERT INTO u VALUES (1)")
        db.execute("INSERT INTO a VALUES (1, '2024-06-01 10:00:10'), (1, '2024-06-01 10:05')")
        db.execute("INSERT INTO u VALUES (1)")  # late for the first window
        db.execute(f"CREATE MATERIALIZED VIEW second AS {query}")
        db.execute("INSERT INTO a VALUES (1, '2024-06-01 10:05:01')")
        assert db.execute("SELECT n FROM first ORDER BY 1").fetchall() == [(1,), (4,)]
        assert db.execute("SELECT n FROM second ORDER BY 1").fetchall() == [(2,), (4,)]
        for name in ("first", "second"):
            assert db.execute(f"VERIFY MATERIALIZED VIEW {name}").fetchall() == []
        db.execute("DROP MATERIALIZED VIEW first")
        assert db.execute("VERIFY MATERIALIZED VIEW second").fetchall() == []
        next(iter(db.engine.views.values())).store.clear()
        with pytest.raises(FeatureNotSupported, match="shares operators"):
            db.execute("VERIFY MATERIALIZED VIEW second")
