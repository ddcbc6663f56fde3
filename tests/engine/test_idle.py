"""`idle_timeout` above joins and unions: inputs without rows do not hold the watermark back."""

from __future__ import annotations

import pytest

import streamsql

UNION = "(SELECT ts, k FROM a UNION ALL SELECT ts, k FROM b)"
JOIN = "(SELECT a.ts, a.k FROM a JOIN b ON a.k = b.k AND a.ts = b.ts)"
LEFT = "(SELECT a.ts, a.k FROM a LEFT JOIN b ON a.k = b.k)"


def tables(db, a: str = "1 second", b: str = "1 second") -> None:
    db.execute("SET streamsql.clock = 'manual'")
    for name, timeout in (("a", a), ("b", b)):
        options = f"WITH (idle_timeout = '{timeout}')" if timeout else ""
        db.execute(f"CREATE TABLE {name} (ts TIMESTAMP, k INT, WATERMARK FOR ts AS ts) {options}")


def windows(db, source: str = UNION, name: str = "w") -> None:
    db.execute(
        f"CREATE MATERIALIZED VIEW {name} AS SELECT window_end, count(*) AS n "
        f"FROM TUMBLE({source}, ts, INTERVAL '1 minute') GROUP BY window_end "
        "EMIT ON WINDOW CLOSE"
    )


def put(db, table: str, *times: str) -> None:
    db.execute(f"INSERT INTO {table} VALUES " + ", ".join(f"('2024-01-01 {t}', 1)" for t in times))


def later(db, seconds: float) -> None:
    db.execute(f"ADVANCE CLOCK BY INTERVAL '{seconds} seconds'")


def closed(db, view: str = "w") -> list[tuple[str, int]]:
    sql = f"SELECT CAST(window_end AS TIME)::text, n FROM {view} ORDER BY 1"
    return [(end[:8], n) for end, n in db.execute(sql).fetchall()]


def holder(db, operator: str) -> set[tuple[str | None, str]]:
    sql = "SELECT watermark::text, held_back_by FROM streamsql.watermarks WHERE operator LIKE ?"
    return set(db.execute(sql, [f"{operator}%"]).fetchall())


@pytest.mark.parametrize("source", [UNION, LEFT])
def test_one_that_never_had_a_row_holds_until_it_is_idle(db, source):
    tables(db, a="1 hour")
    windows(db, source)
    put(db, "a", "00:00:10", "00:01:30")
    later(db, 0.9)
    assert closed(db) == []
    assert holder(db, "Aggregate") == {(None, "b")}
    later(db, 0.2)
    assert closed(db) == [("00:01:00", 1)]
    put(db, "a", "00:05:00")  # the active one goes on alone
    assert closed(db) == [("00:01:00", 1), ("00:02:00", 1)]
    assert holder(db, "Aggregate") == {("2024-01-01 00:05:00", "a")}


def test_without_a_timeout_it_holds_for_ever(db):
    tables(db, b="")
    windows(db)
    put(db, "a", "00:00:10", "00:01:30")
    later(db, 3600)
    assert closed(db) == []


def test_one_that_had_rows_does_not_hold_back_the_active_one(db):
    tables(db, a="1 hour", b="10 seconds")
    windows(db)
    put(db, "b", "00:00:05")
    put(db, "a", "00:00:10", "03:00:00")
    assert closed(db) == []
    later(db, 10)
    assert closed(db) == [("00:01:00", 2)]
    assert db.execute("VERIFY MATERIALIZED VIEW w").fetchall() == []


def test_join_goes_on_with_the_active_side(db):
    tables(db, a="1 hour", b="10 seconds")
    windows(db, JOIN)
    put(db, "b", "00:00:05")
    put(db, "a", "00:00:05", "00:30:00")
    assert closed(db) == []
    later(db, 10)
    assert closed(db) == [("00:01:00", 1)]


@pytest.mark.parametrize("source", [UNION, LEFT])
def test_who_wakes_up_with_older_rows_is_late_and_nothing_falls(db, source):
    tables(db, a="1 hour", b="10 seconds")
    windows(db, source)
    put(db, "a", "00:00:10", "00:10:30")
    later(db, 10)
    before = closed(db)
    assert before == [("00:01:00", 1)]
    put(db, "b", "00:00:20", "00:10:40")
    assert closed(db) == before
    put(db, "a", "00:20:00")
    assert closed(db) == before  # b is active again and holds it back at 00:10:40
    if source == UNION:
        late = db.execute("SELECT CAST(event_time AS TIME)::text FROM streamsql.late_rows")
        assert [t[:8] for (t,) in late.fetchall()] == ["00:00:20"]
    later(db, 10)
    # the union's row of b; the row of a beside both rows of b
    assert closed(db)[1:] == [("00:11:00", 2)]
    assert db.execute("VERIFY MATERIALIZED VIEW w").fetchall() == []


def test_rows_of_a_waking_input_are_judged_alike_however_they_are_cut(db):
    tables(db, a="1 hour", b="10 seconds")
    windows(db)
    put(db, "a", "00:00:10", "00:10:30")
    later(db, 10)
    for time in ("00:10:10", "00:09:50", "00:09:10", "00:10:50"):
        put(db, "b", time)
    late = "SELECT count(*) FROM streamsql.late_rows"
    one_by_one = db.execute(late).fetchall()
    with streamsql.connect() as other:
        tables(other, a="1 hour", b="10 seconds")
        windows(other)
        put(other, "a", "00:00:10", "00:10:30")
        later(other, 10)
        put(other, "b", "00:10:10", "00:09:50", "00:09:10", "00:10:50")
        assert other.execute(late).fetchall() == one_by_one == [(2,)]


def test_when_all_are_idle_it_goes_on_from_its_last_value(db):
    tables(db, a="20 seconds", b="10 seconds")
    windows(db)
    put(db, "b", "00:00:05")
    put(db, "a", "00:10:30")
    later(db, 10)
    assert closed(db) == [("00:01:00", 1)]
    later(db, 19)  # 29 seconds after a's last row: 00:10:59
    assert closed(db) == [("00:01:00", 1)]
    assert ("2024-01-01 00:10:59", "a") in holder(db, "Union")
    later(db, 1)
    assert closed(db) == [("00:01:00", 1), ("00:11:00", 1)]


def test_one_jump_of_the_clock_is_many_small_ones():
    found = []
    for steps in ([40], [5] * 8, [1] * 40):
        with streamsql.connect() as db:
            tables(db, a="20 seconds", b="10 seconds")
            windows(db)
            put(db, "a", "00:00:05", "00:10:30")
            later(db, 3)
            put(db, "b", "00:05:00")
            for seconds in steps:
                later(db, seconds)
            found.append((closed(db), holder(db, "Union")))
    assert found[0] == found[1] == found[2]
    assert found[0][0] == [("00:01:00", 1), ("00:06:00", 1), ("00:11:00", 1)]


def test_after_waking_with_older_rows_all_idle_goes_on_from_where_it_stood(db):
    tables(db, a="10 seconds", b="10 seconds")
    windows(db)
    put(db, "a", "00:10:30")
    later(db, 5)
    later(db, 5)  # b never had a row: all are idle
    assert ("2024-01-01 00:10:40", "a") in holder(db, "Union")
    put(db, "b", "00:00:05")
    later(db, 40)
    assert closed(db) == [("00:11:00", 1)]


def test_a_first_value_that_all_idle_inputs_give_goes_on_with_the_clock_once(db):
    tables(db, a="20 seconds", b="25 seconds")
    windows(db)
    put(db, "a", "00:10:00")
    later(db, 30)
    assert ("2024-01-01 00:10:30", "a") in holder(db, "Union")
    db.execute("ADVANCE CLOCK BY INTERVAL '0 seconds'")
    later(db, 1)
    assert ("2024-01-01 00:10:31", "a") in holder(db, "Union")


def test_tables_without_event_time_do_not_count(db):
    tables(db, a="10 seconds")
    db.execute("CREATE TABLE names (k INT, name TEXT)")
    windows(db, "(SELECT a.ts, a.k FROM a JOIN names ON a.k = names.k)")
    db.execute("INSERT INTO names VALUES (1, 'x')")
    later(db, 20)
    put(db, "a", "00:00:10")
    later(db, 20)
    assert closed(db) == []
    later(db, 30)
    assert closed(db) == [("00:01:00", 1)]
    put(db, "a", "00:02:10")
    later(db, 70)
    assert closed(db) == [("00:01:00", 1), ("00:03:00", 1)]


def test_windows_over_closed_windows_go_on_too(db):
    tables(db, a="1 hour", b="10 seconds")
    db.execute(
        "CREATE MATERIALIZED VIEW w AS SELECT window_time AS t, count(*) AS n FROM "
        f"TUMBLE({UNION}, ts, INTERVAL '1 minute') GROUP BY window_time EMIT ON WINDOW CLOSE"
    )
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT window_end, CAST(sum(n) AS BIGINT) AS n FROM "
        "TUMBLE(w, t, INTERVAL '5 minutes') GROUP BY window_end EMIT ON WINDOW CLOSE"
    )
    put(db, "a", "00:00:10", "00:02:10", "00:07:00")
    assert closed(db, "v") == []
    later(db, 10)
    assert closed(db, "v") == [("00:05:00", 2)]
    put(db, "a", "00:10:00")
    assert closed(db, "v") == [("00:05:00", 2), ("00:10:00", 1)]


@pytest.mark.parametrize("background", [False, True])
def test_a_view_made_later_knows_who_is_idle(db, background):
    tables(db, a="1 hour", b="10 seconds")
    put(db, "a", "00:00:10", "00:10:30")
    later(db, 10)
    db.execute(f"SET background_ddl = {background}")
    windows(db)
    for job in list(db.engine.jobs.active.values()):
        job.outcome.wait(20)
    put(db, "a", "00:20:00")
    assert closed(db) == [("00:01:00", 1), ("00:11:00", 1)]


@pytest.mark.parametrize("checkpoint", [False, True])
def test_restart_goes_on_as_it_was(tmp_path, checkpoint):
    path = tmp_path / "d"
    with streamsql.connect(path) as db:
        tables(db, a="1 hour", b="10 seconds")
        windows(db)
        put(db, "a", "00:00:10", "00:10:30")
        later(db, 9)
        if checkpoint:
            db.engine.call(db.engine.durability.checkpoint)
    with streamsql.connect(path) as db:
        assert closed(db) == []
        later(db, 1)
        assert closed(db) == [("00:01:00", 1)]
        if checkpoint:
            db.engine.call(db.engine.durability.checkpoint)
        shown = db.execute("SELECT * FROM streamsql.watermarks").fetchall()
    with streamsql.connect(path) as db:
        assert db.execute("SELECT * FROM streamsql.watermarks").fetchall() == shown
        put(db, "a", "00:20:00")
        assert closed(db) == [("00:01:00", 1), ("00:11:00", 1)]
        put(db, "b", "00:10:50")
        assert db.execute("SELECT count(*) FROM streamsql.late_rows").fetchall() == [(1,)]
        if checkpoint:
            db.engine.call(db.engine.durability.checkpoint)
    with streamsql.connect(path) as db:
        put(db, "b", "00:15:00")  # judged by what b counted for when it was idle
        assert db.execute("SELECT count(*) FROM streamsql.late_rows").fetchall() == [(2,)]
        assert closed(db) == [("00:01:00", 1), ("00:11:00", 1)]


def test_a_source_is_waited_for_from_its_first_reader_on(db, tmp_path):
    db.execute("SET streamsql.clock = 'manual'")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        db.execute(
            f"CREATE SOURCE {name} (ts TIMESTAMP, k INT, WATERMARK FOR ts AS ts) WITH (connector = "
            f"'file', path = '{tmp_path / name}', follow = 'true', idle_timeout = '10 seconds') "
            "FORMAT PLAIN ENCODE CSV (header = false)"
        )
    (tmp_path / "a" / "1.csv").write_text("2024-01-01 00:00:10,1\n2024-01-01 00:01:30,1\n")
    later(db, 60)
    windows(db)
    db.execute("FLUSH")
    assert closed(db) == []
    later(db, 9)
    (tmp_path / "a" / "2.csv").write_text("2024-01-01 00:01:40,1\n")
    db.execute("FLUSH")
    assert closed(db) == []
    later(db, 1)
    assert closed(db) == [("00:01:00", 1)]


@pytest.mark.parametrize("how", ["SELECT x.k FROM {} x LEFT JOIN {} y", "SELECT x.k FROM {} x"])
def test_who_wakes_up_takes_back_rows_of_windows_that_closed_without_it(db, how):
    tables(db, a="1 hour", b="10 seconds")
    windowed = [f"TUMBLE({t}, ts, INTERVAL '1 minute')" for t in "ab"]
    same = "x.k = y.k AND x.window_start = y.window_start AND x.window_end = y.window_end"
    query = how.format(*windowed) + f" ON {same}"
    if "JOIN" not in how:
        query = (
            how.format(*windowed)
            + f" WHERE NOT EXISTS (SELECT 1 FROM {windowed[1]} y WHERE {same})"
        )
    db.execute(f"CREATE MATERIALIZED VIEW w AS {query}")
    put(db, "b", "00:00:05")
    put(db, "a", "00:00:05", "00:05:00")
    later(db, 20)
    put(db, "b", "00:02:05")  # on time by its own watermark, behind what b counted for
    put(db, "b", "00:02:06")
    db.execute("DELETE FROM b WHERE ts > '2024-01-01 00:02:00'")
    assert db.execute("VERIFY MATERIALIZED VIEW w").fetchall() == []
