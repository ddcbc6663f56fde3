"""VERIFY where the past of a view's inputs is not kept any more: what the rows alone do not tell is
refused, with what to do, and never reported as a difference.

The views are right, and have no differences as long as their past is known.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import streamsql
from streamsql.engine import past
from streamsql.engine.database import Database
from tests.refused import refused

WINDOW = "INTERVAL '10 s'"
BOTH = "(SELECT id, k, t FROM a UNION ALL SELECT id, k, t FROM b)"
UNITED = f"SELECT window_start, count(*) c FROM TUMBLE({BOTH}, t, {WINDOW}) GROUP BY 1"
TABLES = """
    CREATE TABLE a (id INT, k INT, t TIMESTAMP, WATERMARK FOR t AS t) WITH (idle_timeout = '15 s');
    CREATE TABLE b (id INT, k INT, t TIMESTAMP, WATERMARK FOR t AS t);
    CREATE TABLE u (k INT PRIMARY KEY, n TEXT);
    INSERT INTO u VALUES (1, 'x'), (2, 'y');
    SET streamsql.clock = 'manual';
    ADVANCE CLOCK TO '2100-01-01 00:00:00+00'
"""


@pytest.fixture
def db() -> Iterator[Database]:
    """A database with the tables."""
    with streamsql.connect() as opened:
        run(opened, TABLES)
        yield opened


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """The same; it forgets the order in which rows came after a few ticks."""
    monkeypatch.setattr(past, "PAGE", 2)
    monkeypatch.setattr(past, "PAGES_MAX", 1)
    with streamsql.connect() as opened:
        run(opened, TABLES)
        yield opened


def run(db: Database, text: str) -> None:
    for statement in text.split(";"):
        if statement.strip():
            db.execute(statement)


def make(db: Database, query: str) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW m AS {query}")


def verify(db: Database) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = db.execute("VERIFY MATERIALIZED VIEW m").fetchall()
    return found


def rows(*seconds: int) -> str:
    """A row of `a` or `b` for each of these seconds, which are its id too."""
    at = "TIMESTAMP '2024-06-01 00:00:00'"
    return ", ".join(f"({s}, 1, {at} + INTERVAL '{s} s')" for s in seconds)


def take_turns(db: Database, other: str) -> None:
    """Ticks of `a` and another relation, one after the other: older ones are forgotten."""
    for s in range(60, 66):
        row = f"({s}, 'z')" if other == "u" else rows(s)
        run(db, f"INSERT INTO a VALUES {rows(s)}; INSERT INTO {other} VALUES {row}")


def looked_up(db: Database) -> None:
    make(db, "SELECT a.id, u.n FROM a JOIN u FOR SYSTEM_TIME AS OF PROCTIME() ON a.k = u.k")
    run(db, f"INSERT INTO a VALUES {rows(1)}; UPDATE u SET n = 'changed' WHERE k = 1")
    take_turns(db, "u")


def test_what_a_temporal_join_showed(db: Database) -> None:
    looked_up(db)
    assert db.execute("SELECT n FROM m WHERE id = 1").fetchall() == [("x",)]
    assert verify(db) == []


def test_what_a_temporal_join_showed_is_lost(forgetful: Database) -> None:
    looked_up(forgetful)
    with refused(
        "0A000",
        '"m" can not be verified: a temporal join shows what its right side held at another time, '
        "and not all rows that went from there are kept",
    ):
        verify(forgetful)


def stamped(db: Database) -> None:
    make(db, "SELECT id, now() AS at FROM a")
    for s in range(6):
        run(db, f"INSERT INTO a VALUES {rows(s)}; ADVANCE CLOCK BY '1 s'")


def test_when_rows_came(db: Database) -> None:
    stamped(db)
    assert verify(db) == []


def test_when_rows_came_is_lost(forgetful: Database) -> None:
    stamped(forgetful)
    with refused(
        "0A000",
        '"m" can not be verified: it shows now() as of when each row came, and not all rows that '
        "came and went are kept",
    ):
        verify(forgetful)


def united(db: Database) -> None:
    """Rows of `a` that its own watermark has passed are on time as long as `b` is behind."""
    make(db, UNITED)
    run(db, f"INSERT INTO b VALUES {rows(1)}; INSERT INTO a VALUES {rows(40)}")
    run(db, f"INSERT INTO a VALUES {rows(2)}; INSERT INTO b VALUES {rows(50)}")
    run(db, f"INSERT INTO a VALUES {rows(3)}")
    take_turns(db, "b")


def test_what_several_inputs_knew_of_time(db: Database) -> None:
    united(db)
    counted = db.execute("SELECT c FROM m ORDER BY window_start LIMIT 1").fetchall()
    assert counted == [(2,)]
    assert verify(db) == []


def test_what_several_inputs_knew_of_time_is_lost(forgetful: Database) -> None:
    united(forgetful)
    with refused(
        "0A000",
        '"m" can not be verified: its windows judge the rows of a join or UNION by what all inputs '
        "knew of time when they came, which is not kept any more",
    ):
        verify(forgetful)


def turned(db: Database) -> None:
    """The clock takes the row of second 1 from its window when that is closed: it stays."""
    recent = "SELECT id, k, t FROM a WHERE t + INTERVAL '27607 days' > now()"
    make(
        db,
        f"SELECT window_end, count(*) c FROM TUMBLE(({recent}), t, {WINDOW}) GROUP BY 1 "
        "EMIT ON WINDOW CLOSE",
    )
    run(db, f"INSERT INTO a VALUES {rows(1)}; INSERT INTO a VALUES {rows(50)}")
    for s in range(60, 66):
        run(db, f"ADVANCE CLOCK BY '20 s'; INSERT INTO a VALUES {rows(s)}")


def test_turns_that_came_too_late(db: Database) -> None:
    turned(db)
    assert ("2024-06-01 00:00:10", 1) in db.execute("SELECT window_end::TEXT, c FROM m").fetchall()
    assert verify(db) == []


def test_turns_that_came_too_late_are_lost(forgetful: Database) -> None:
    turned(forgetful)
    with refused(
        "0A000",
        '"m" can not be verified: rows come and go by the clock below what the watermark closes, '
        "and which turns came too late is not kept any more",
    ):
        verify(forgetful)


def idled(db: Database) -> None:
    """The clock goes on for `a`, which is idle, so that its pair with a new row of `u` is late."""
    make(
        db,
        "SELECT window_start, n, count(*) c FROM TUMBLE((SELECT a.t, u.n FROM a JOIN u USING (k)), "
        f"t, {WINDOW}) GROUP BY 1, 2",
    )
    run(db, f"DELETE FROM u WHERE k = 1; INSERT INTO a VALUES {rows(1)}; ADVANCE CLOCK BY '60 s'")
    run(db, f"INSERT INTO u VALUES (1, 'x'); INSERT INTO a VALUES {rows(70)}")
    run(db, "INSERT INTO u VALUES (9, 'z')")


def test_what_an_idle_input_counted_for(db: Database) -> None:
    idled(db)
    assert db.execute("SELECT window_start::TEXT, c FROM m").fetchall() == [
        ("2024-06-01 00:01:10", 1)
    ]
    assert verify(db) == []


def test_what_an_idle_input_counted_for_is_lost(forgetful: Database) -> None:
    idled(forgetful)
    with refused(
        "0A000",
        '"m" can not be verified: an input was idle, and what its watermark counted for when each '
        "row came is not kept any more",
    ):
        verify(forgetful)


def test_rows_that_held_a_session_open_are_lost(db: Database) -> None:
    """What went is kept in the columns of its time, which are not those of today."""
    make(
        db,
        "SELECT window_start::TEXT, window_end::TEXT, count(*) c FROM SESSION(b, t, "
        "INTERVAL '4 s') GROUP BY window_start, window_end",
    )
    run(db, f"INSERT INTO b VALUES {rows(1, 5, 9)}; INSERT INTO b VALUES {rows(3)}")
    run(db, "DELETE FROM b WHERE id = 5")
    assert ("2024-06-01 00:00:01", "2024-06-01 00:00:07", 2) in db.execute("TABLE m").fetchall()
    assert verify(db) == []
    run(db, "ALTER TABLE b ADD COLUMN note TEXT")
    with refused(
        "0A000",
        '"m" can not be verified: rows went from its sessions, and which rows came while these '
        "held a session open is not kept any more",
    ):
        verify(db)


def test_what_a_dropped_view_had_seen_is_lost(db: Database) -> None:
    """A row that is missing may be one that the operators had judged before the view came."""
    run(db, f"CREATE MATERIALIZED VIEW first AS {UNITED}")
    run(db, f"INSERT INTO a VALUES {rows(40)}; INSERT INTO a VALUES {rows(36)}")
    make(db, UNITED)
    run(db, "DROP MATERIALIZED VIEW first")
    assert verify(db) == []
    next(iter(db.engine.views.values())).store.clear()
    with refused(
        "0A000",
        '"m" can not be verified: it shares operators with views that were dropped or filled anew '
        "since, and what these had seen by then is not kept",
    ):
        verify(db)


BESIDE = {
    "union": UNITED,
    "join": f"SELECT window_start, count(*) c FROM TUMBLE((SELECT a.t FROM a JOIN b USING (k)), t, "
    f"{WINDOW}) GROUP BY 1",
}


@pytest.mark.parametrize("query", BESIDE.values(), ids=BESIDE)
@pytest.mark.parametrize("ahead", [1, 90])
def test_a_view_begins_with_the_same_rows_over_operators_of_its_own_and_of_others(
    db: Database, query: str, ahead: int
) -> None:
    """Rows of `a` behind its own watermark, but not that of both, are on time."""
    run(db, f"INSERT INTO b VALUES {rows(1)}; INSERT INTO a VALUES {rows(40)}")
    run(db, f"CREATE MATERIALIZED VIEW first AS {query}")
    run(db, f"INSERT INTO a VALUES {rows(36)}; INSERT INTO b VALUES {rows(ahead)}")
    make(db, query)
    beside = db.execute("SELECT * FROM m ORDER BY 1").fetchall()
    assert verify(db) == []
    run(db, "DROP MATERIALIZED VIEW first; DROP MATERIALIZED VIEW m")
    make(db, query)
    assert beside == db.execute("SELECT * FROM m ORDER BY 1").fetchall() != []
