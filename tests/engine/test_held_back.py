"""EXPLAIN ANALYZE of a view says which source holds its windows open, and how far it has to come."""

from __future__ import annotations

import json

import pytest

import streamsql
from streamsql.core.errors import StreamSqlError

UNION = "(SELECT at FROM l UNION ALL SELECT at FROM r)"


@pytest.fixture
def db():
    with streamsql.connect() as database:
        database.execute("SET streamsql.clock = 'manual'")
        database.execute("ADVANCE CLOCK TO '2030-01-02 00:00:00'")
        yield database


def tables(db, options: str = "") -> None:
    for name in ("l", "r"):
        db.execute(
            f"CREATE TABLE {name} (k INT, at TIMESTAMP, WATERMARK FOR at AS at) "
            f"{options if name == 'r' else ''}"
        )


def put(db, table: str, *times: str) -> None:
    values = ", ".join(f"(1, '2024-01-01 {t}')" for t in times)
    db.execute(f"INSERT INTO {table} VALUES {values}")


def windows(db, source: str = UNION, window: str = "TUMBLE", emit: str = "ON WINDOW CLOSE") -> None:
    db.execute(
        f"CREATE MATERIALIZED VIEW v AS SELECT window_start, window_end, count(*) AS n "
        f"FROM {window}({source}, at, INTERVAL '1 minute') "
        f"GROUP BY window_start, window_end EMIT {emit}"
    )


def lines(db, what: str = "ANALYZE") -> list[str]:
    return [row[0] for row in db.execute(f"EXPLAIN {what} MATERIALIZED VIEW v").fetchall()]


def why(db) -> list[str]:
    """The lines that tell why, which stand right under the headings."""
    found = lines(db)
    start = 2 if found[1].startswith("Emit: ") else 1
    held = [line for line in found if line.startswith(("Held back", "Oldest"))]
    assert found[start : start + len(held)] == held
    return held


def test_one_that_never_had_a_row_is_named_with_the_way_out(db) -> None:
    tables(db)
    windows(db)
    put(db, "l", "00:00:10", "00:05:00")
    assert why(db) == [
        "Held back by r since 2030-01-02 00:00:00 UTC: it never had a row; an idle_timeout on it "
        "would let the others go on",
        "Oldest open window: ends 2024-01-01 00:01:00, closes when the watermark of r reaches "
        "2024-01-01 00:01:00",
    ]
    root = json.loads(lines(db, "(ANALYZE, FORMAT JSON)")[0])
    assert root["held back"] == why(db)


def test_idle_timeout_says_when_the_others_go_on_and_they_do(db) -> None:
    tables(db, "WITH (idle_timeout = '10 seconds')")
    windows(db)
    put(db, "l", "00:00:10", "00:05:00")
    assert why(db)[0].endswith(
        ": it never had a row; if nothing comes, its idle_timeout lets the others go on at "
        "2030-01-02 00:00:10 UTC"
    )
    db.execute("ADVANCE CLOCK BY INTERVAL '10 seconds'")
    assert why(db) == [
        "Held back by l since 2030-01-02 00:00:00 UTC: its watermark is 2024-01-01 00:05:00",
        "Oldest open window: ends 2024-01-01 00:06:00, closes when the watermark of l reaches "
        "2024-01-01 00:06:00",
    ]


def test_lagging_side_of_a_join_is_named_until_it_closes_the_window(db) -> None:
    tables(db)
    sides = " JOIN ".join(f"TUMBLE({t}, at, INTERVAL '1 minute') AS {t}" for t in ("l", "r"))
    db.execute(
        f"CREATE MATERIALIZED VIEW v AS SELECT l.window_end, count(*) AS n FROM {sides} "
        "ON l.k = r.k AND l.window_end = r.window_end GROUP BY l.window_end EMIT ON WINDOW CLOSE"
    )
    put(db, "l", "00:00:10", "00:09:00")
    assert why(db)[1] == "Oldest open window: none has rows in it"
    put(db, "r", "00:00:30")
    assert why(db) == [
        "Held back by r since 2030-01-02 00:00:00 UTC: its watermark is 2024-01-01 00:00:30",
        "Oldest open window: ends 2024-01-01 00:01:00, closes when the watermark of r reaches "
        "2024-01-01 00:01:00",
    ]
    assert db.execute("SELECT n FROM v").fetchall() == []
    put(db, "r", "00:01:00")  # as far as it said
    assert db.execute("SELECT n FROM v").fetchall() == [(1,)]


def test_allowed_lateness_is_between_the_end_and_the_close(db) -> None:
    db.execute(
        "CREATE TABLE l (k INT, at TIMESTAMP, WATERMARK FOR at AS at) "
        "WITH (allowed_lateness = '30 seconds')"
    )
    windows(db, "l")
    put(db, "l", "00:00:10")
    assert why(db)[1] == (
        "Oldest open window: ends 2024-01-01 00:01:00, closes when the watermark of l reaches "
        "2024-01-01 00:01:30"
    )
    put(db, "l", "00:01:29.999999")
    assert db.execute("SELECT n FROM v").fetchall() == []
    put(db, "l", "00:01:30")
    assert db.execute("SELECT n FROM v").fetchall() == [(1,)]


@pytest.mark.parametrize(("window", "end"), [("TUMBLE", "00:01:00"), ("SESSION", "00:01:10")])
@pytest.mark.parametrize("emit", ["ON WINDOW CLOSE", "IMMEDIATELY"])
def test_windows_of_each_kind_count_while_they_have_rows(db, window, end, emit) -> None:
    tables(db)
    windows(db, "l", window, emit)
    assert why(db)[1] == "Oldest open window: none has rows in it"
    put(db, "l", "00:00:10")
    assert why(db)[1].startswith(f"Oldest open window: ends 2024-01-01 {end}, closes when ")
    db.execute("DELETE FROM l")
    assert why(db)[1] == "Oldest open window: none has rows in it"


def test_rows_that_are_held_back_count_until_they_are_taken_back(db) -> None:
    tables(db)
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, at FROM l EMIT ON WINDOW CLOSE")
    put(db, "l", "00:00:10")
    reach = "leaves when the watermark of l reaches 2024-01-01 00:00:10.000001"
    assert why(db)[1] == f"Oldest row that waits: {reach}"
    db.execute("DELETE FROM l")
    assert len(why(db)) == 1


def test_windows_whose_rows_are_held_back_whole_are_windows_too(db) -> None:
    tables(db)
    sides = " LEFT JOIN ".join(f"TUMBLE({t}, at, INTERVAL '1 minute') AS {t}" for t in ("l", "r"))
    db.execute(
        f"CREATE MATERIALIZED VIEW v AS SELECT l.window_start, r.k FROM {sides} ON l.k = r.k AND "
        "l.window_start = r.window_start AND l.window_end = r.window_end EMIT ON WINDOW CLOSE"
    )
    put(db, "l", "00:00:10", "00:05:00")
    assert why(db)[1] == (
        "Oldest open window: ends 2024-01-01 00:01:00, closes when the watermark of r reaches "
        "2024-01-01 00:01:00"
    )


def test_join_that_gives_out_on_close_names_who_holds_it(db) -> None:
    tables(db)
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT l.k, l.at, r.k AS rk FROM l ASOF LEFT JOIN r "
        "ON l.k = r.k AND l.at >= r.at EMIT ON WINDOW CLOSE"
    )
    put(db, "l", "00:00:10")
    assert [line.partition(" since ")[0] for line in why(db)] == ["Held back by r"]


def test_hopping_windows_by_panes_tell_the_first_that_closes(db) -> None:
    tables(db)
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT window_end, count(*) AS n FROM "
        "HOP(l, at, INTERVAL '1 minute', INTERVAL '3 minutes') GROUP BY window_end"
    )
    put(db, "l", "00:00:10")
    assert why(db)[1].startswith("Oldest open window: ends 2024-01-01 00:01:00, closes when ")


@pytest.mark.parametrize("emit", ["ON WINDOW CLOSE", "IMMEDIATELY"])
def test_grouping_sets_tell_the_first_window_of_all_sets(db, emit) -> None:
    tables(db)
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT window_start, k, count(*) AS n FROM "
        "TUMBLE(l, at, INTERVAL '1 minute') GROUP BY GROUPING SETS ((window_start, k), "
        f"(window_start)) EMIT {emit}"
    )
    assert why(db)[1:] == ["Oldest open window: none has rows in it"]
    put(db, "l", "00:00:10", "00:00:20")
    assert why(db)[1].startswith("Oldest open window: ends 2024-01-01 00:01:00, closes when ")
    put(db, "l", "00:02:10")
    assert why(db)[1].startswith("Oldest open window: ends 2024-01-01 00:03:00, closes when ")


def test_rows_too_far_ahead_are_counted_at_the_source_and_named_as_the_cause(db) -> None:
    tables(db)
    windows(db)
    put(db, "l", "00:00:10", "00:05:00")
    db.execute("INSERT INTO r VALUES (1, '2040-01-01 00:00:00'), (1, '2040-01-01 00:01:00')")
    assert why(db)[0] == (
        "Held back by r since 2030-01-02 00:00:00 UTC: it has rows, but none that moved its "
        "watermark; 2 of its rows are further ahead of the clock than max_future allows (see "
        "streamsql.source_errors); an idle_timeout on it would let the others go on"
    )
    counted = [line for line in lines(db) if "rows too far ahead" in line]
    assert len(counted) == 1
    assert counted[0].strip().startswith("2 rows in, 2 out")
    assert counted[0].endswith(", 2 rows too far ahead")
    with pytest.raises(StreamSqlError):
        db.execute("INSERT INTO r VALUES (1, '2040-01-01 00:00:00'), (1 / 0, '2024-01-01')")
    assert [line for line in lines(db) if "rows too far ahead" in line] == counted


def test_sources_that_are_all_idle_are_said_to_be(db) -> None:
    db.execute(
        "CREATE TABLE l (k INT, at TIMESTAMP, WATERMARK FOR at AS at) "
        "WITH (idle_timeout = '10 seconds')"
    )
    windows(db, "l")
    put(db, "l", "00:00:10")
    db.execute("ADVANCE CLOCK BY INTERVAL '20 seconds'")
    assert "; idle since 2030-01-02 00:00:10 UTC, as all that is read here is" in why(db)[0]


def test_view_without_windows_and_plain_explain_say_nothing_of_it(db) -> None:
    tables(db)
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM l GROUP BY k")
    assert why(db) == []
    db.execute("DROP MATERIALIZED VIEW v")
    windows(db)
    assert not [line for line in lines(db, "") if line.startswith("Held back")]


def test_temporal_join_is_held_back_by_the_side_that_leads(db) -> None:
    tables(db)
    db.execute("CREATE TABLE d (k INT PRIMARY KEY, at TIMESTAMP, w INT, WATERMARK FOR at AS at)")
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT l.k, l.at, d.w FROM l "
        "JOIN d FOR SYSTEM_TIME AS OF PROCTIME() ON l.k = d.k"
    )
    put(db, "l", "00:00:10")
    held = db.execute(
        "SELECT DISTINCT held_back_by FROM streamsql.watermarks WHERE operator LIKE 'Temporal%'"
    ).fetchall()
    assert held == [("l",)]


def test_spans_of_a_join_that_are_open_are_named_in_place_of_its_sources(db) -> None:
    for name in ("a", "b"):
        db.execute(f"CREATE TABLE {name} (k INT, t TIMESTAMP, u TIMESTAMP, WATERMARK FOR t AS t)")
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT window_end, count(*) AS n FROM TUMBLE((SELECT a.t "
        "FROM a JOIN b ON a.k = b.k AND b.t BETWEEN a.t AND a.u), t, INTERVAL '10 s') "
        "GROUP BY window_end"
    )
    at = "2024-01-01 00:00:"
    db.execute(f"INSERT INTO a VALUES (1, '{at}05', '{at}50'), (1, '{at}59', '{at}59')")
    db.execute(f"INSERT INTO b VALUES (1, '{at}06', NULL), (1, '{at}40', NULL)")
    named, oldest = why(db)
    assert named.startswith("Held back by IntervalJoin #")
    assert named.endswith(" for spans that are still open")
    assert oldest == (
        f"Oldest open window: ends {at}10, closes when the watermark of b passes {at}50"
    )
    db.execute(f"INSERT INTO b VALUES (1, '{at}58', NULL)")
    assert why(db)[0].startswith("Held back by b since ")
    assert why(db)[1] == "Oldest open window: none has rows in it"


def test_a_window_is_promised_for_when_the_spans_that_will_hold_it_are_over(db) -> None:
    for name in ("a", "b"):
        db.execute(f"CREATE TABLE {name} (id INT, t TIMESTAMP, u TIMESTAMP, WATERMARK FOR t AS t)")
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT window_end, count(*) AS n FROM TUMBLE((SELECT a.t "
        "FROM a LEFT JOIN b ON a.id = b.id AND b.t BETWEEN a.t AND a.u), t, INTERVAL '10 s') "
        "GROUP BY window_end EMIT ON WINDOW CLOSE"
    )
    at = "2024-01-01 00:00:"
    closes = f"Oldest open window: ends {at}10, closes when the watermark of"
    db.execute(f"INSERT INTO a VALUES (1, '{at}04', '{at}06'), (1, '{at}07', '{at}09')")
    # the spans are over before
    assert why(db)[1] == f"{closes} a reaches {at}10 and that of b reaches {at}10"
    db.execute(f"INSERT INTO a VALUES (1, '{at}08', '{at}50'), (2, '{at}09', NULL)")
    assert why(db)[0].startswith("Held back by b since ")
    assert why(db)[1] == f"{closes} a passes {at}50 and that of b passes {at}50"
    db.execute(f"ADVANCE WATERMARK FOR b TO '{at}20'")
    assert why(db)[0].startswith("Held back by LeftJoin #")
    assert why(db)[1] == f"{closes} a passes {at}50 and that of b passes {at}50"
    db.execute(f"INSERT INTO a VALUES (3, '{at}11', '{at}59')")
    assert why(db)[1] == f"{closes} a passes {at}50 and that of b passes {at}50"
    db.execute(f"ADVANCE WATERMARK FOR a TO '{at}59'")
    assert why(db)[1] == f"{closes} b passes {at}50"
    db.execute(f"ADVANCE WATERMARK FOR b TO '{at}50'")
    assert db.execute("SELECT * FROM v").fetchall() == []
    assert why(db)[1] == f"{closes} b passes {at}50"
    db.execute(f"ADVANCE WATERMARK FOR b TO '{at}50.000001'")
    assert [n for _, n in db.execute("SELECT * FROM v").fetchall()] == [4]
