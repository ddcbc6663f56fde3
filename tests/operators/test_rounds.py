"""What GROUP BY, DISTINCT and set operations give to windows: late or not row by row, however ticks are cut."""

from __future__ import annotations

import datetime as dt
import os
import random
from collections import Counter
from collections.abc import Callable

import pytest

from streamsql.core.delta import Delta
from streamsql.core.errors import FeatureNotSupported
from streamsql.core.schema import Schema
from streamsql.core.types import INTEGER, TIMESTAMP
from streamsql.engine.database import Database
from streamsql.operators import Options
from streamsql.operators.distinct import Distinct
from tests.operators.harness import Event, Row, Table, View, undo, view_of

BASE = dt.datetime(2024, 6, 1, 10)
SCHEMA = Schema.of(("ts", TIMESTAMP), ("k", INTEGER), ("v", INTEGER))


def timed(delay: int = 2, lateness: int = 0) -> Table:
    return Table(
        SCHEMA, watermark_column=0, watermark_delay_us=delay * 1_000_000,
        lateness_us=lateness * 1_000_000,
    )  # fmt: skip


SEEDS = int(os.environ.get("STREAMSQL_SEEDS", "1"))
INNER = {
    "distinct": "SELECT DISTINCT ts, k FROM t0",
    "group": "SELECT ts, count(*) AS k, sum(v) AS s, min(v) AS m FROM t0 GROUP BY ts",
    "two keys": "SELECT ts, k, count(DISTINCT v) AS n FROM t0 GROUP BY ts, k",
    "lists": "SELECT ts, max(k) AS k, array_agg(v ORDER BY v) AS l FROM t0 GROUP BY ts",
    "having": "SELECT ts, max(k) AS k FROM t0 GROUP BY ts HAVING count(*) > 1",
    "grouping sets": "SELECT ts, k, count(*) AS n FROM t0 GROUP BY GROUPING SETS ((ts), (ts, k))",
    "union": "SELECT ts, k FROM t0 UNION SELECT ts, k FROM t1",
    "union of itself": "SELECT ts, k FROM t0 WHERE v > 4 UNION SELECT ts, v FROM t0",
    "except": "SELECT ts, k FROM t0 EXCEPT SELECT ts, k FROM t1",
    "except all": "SELECT ts, k FROM t0 EXCEPT ALL SELECT ts, k FROM t1",
    "intersect": "SELECT ts, k FROM t0 INTERSECT SELECT ts, v FROM t0",
    "intersect all": "SELECT ts, k FROM t0 INTERSECT ALL SELECT ts, k FROM t1",
    "distinct of groups": "SELECT DISTINCT ts, k FROM (SELECT ts, k, v, count(*) FROM t0 GROUP BY 1, 2, 3)",
    "union of groups": "SELECT ts, count(*) AS k FROM t0 GROUP BY ts UNION ALL SELECT ts, k FROM t1",
    "sessions": "SELECT window_time AS ts, count(*) AS k FROM SESSION(t0, ts, INTERVAL '3 s') "
    "GROUP BY window_start, window_end, window_time",
    "distinct over a join": "SELECT DISTINCT a.ts, b.k FROM t0 a JOIN t0 b ON a.k = b.v",
}
OUTER = {
    "tumble": "SELECT window_end, count(*) AS n, sum(k) AS s FROM TUMBLE(({}), ts, INTERVAL '5 s') "
    "GROUP BY window_start, window_end",
    "hop": "SELECT window_end, count(*) AS n, sum(k) AS s FROM HOP(({}), ts, INTERVAL '3 s', "
    "INTERVAL '6 s') GROUP BY window_start, window_end",
    "rows": "SELECT ts, k, window_end FROM CUMULATE(({}), ts, INTERVAL '2 s', INTERVAL '6 s')",
    "session": "SELECT window_start, window_end, count(*) AS n FROM SESSION(({}), ts, INTERVAL "
    "'2 s') GROUP BY window_start, window_end",
    "top": "SELECT * FROM (SELECT ts, k, window_end, row_number() OVER (PARTITION BY window_start, "
    "window_end ORDER BY k DESC, ts) AS rn FROM TUMBLE(({}), ts, INTERVAL '5 s')) q WHERE rn <= 2",
    "plain": "SELECT ts, k FROM ({}) q",
}


def runs(seed: int, *, rows: int = 60, unique: bool = False) -> list[list[Event]]:
    """Runs of changes, each of one relation; some take rows back. unique: no row comes twice."""
    rng = random.Random(seed)
    now, number, out = 0, 0, []
    held: list[list[Row]] = [[], []]
    while rows > 0:
        relation, run = rng.randrange(2), []
        for _ in range(rng.randint(1, 9)):
            rows -= 1
            if held[relation] and rng.random() < 0.3:
                gone = held[relation].pop(rng.randrange(len(held[relation])))
                run.append((relation, gone, -1))
                continue
            now += rng.choice([0, 0, 1, 2])
            time = BASE + dt.timedelta(seconds=now - rng.choice([0, 0, 1, 3, 6, 12]))
            number += 1
            k = number if unique else rng.randint(1, 3)
            row = (None if rng.random() < 0.03 else time, k, rng.randint(1, 6))
            held[relation].append(row)
            run.append((relation, row, 1))
        out.append(run)
    return out


def parts(run: list[Event]) -> list[list[Event]]:
    """The run row by row; rows that go in a row go together, none before the other."""
    out: list[list[Event]] = []
    for event in run:
        if out and event[2] < 0 and out[-1][-1][2] < 0:
            out[-1].append(event)
        else:
            out.append([event])
    return out


def late(view: View) -> Counter[tuple[int, int]]:
    """What was dropped, by event time and watermark: the sum of its weights."""
    total: Counter[tuple[int, int]] = Counter()
    for found in view.late:
        weights = [1] * found.batch.num_rows if found.weights is None else found.weights
        for time, mark, weight in zip(
            found.event_time_us, found.watermark_us, weights, strict=True
        ):
            total[int(time), int(mark)] += int(weight)
    return Counter({key: n for key, n in total.items() if n})


def views(inner: str, outer: str, on_close: bool, delay: int, lateness: int) -> list[View]:
    sql = OUTER[outer].format(INNER[inner])
    tables = [timed(delay, lateness), timed(delay, lateness)]
    return [view_of(sql, tables, Options(on_close=on_close)) for _ in range(2)]


# a group that changes leaves its session for a moment, which may close it: those of all sets do
COMBINED = [(i, o) for i in INNER for o in OUTER if (i, o) != ("grouping sets", "session")]


@pytest.mark.parametrize(("inner", "outer"), COMBINED)
def test_cuts_do_not_matter(inner: str, outer: str) -> None:
    first = (*INNER,).index(inner) + (*OUTER,).index(outer)
    for seed in range(first, first + SEEDS):
        whole, cut = views(inner, outer, outer == "plain" or seed % 2 == 0, 2, seed % 3 == 0)
        # a session that shrinks may close, so that what goes and comes again is late: unless it did
        # so in one tick
        for i, run in enumerate(runs(seed, rows=45, unique="session" in outer + inner)):
            whole.step(run)
            for part in parts(run):
                cut.step(part)
            if i == 3:
                cut.restart()
            assert cut.output == whole.output, seed
        assert late(cut) == late(whole), seed


def test_rows_are_late_at_all() -> None:
    for inner in ("distinct", "group", "union", "except", "grouping sets"):
        whole, _ = views(inner, "tumble", False, 2, 0)
        for run in runs(1):
            whole.step(run)
        assert late(whole), inner


@pytest.mark.parametrize("inner", INNER)
def test_undo_leaves_nothing(inner: str) -> None:
    """Where nothing is late: the answer is the query's, and in the end no state is left."""
    view, _ = views(inner, "tumble", False, 1000, 0)
    history = runs(3, rows=30)
    for run in history:
        view.step(run)
        view.verify(inner)
    for events in undo(history, random.Random(3)):
        view.step(events)
    assert not view.output
    assert view.held() == {}


def test_only_entries_behind_the_watermark_are_taken_apart() -> None:
    view, _ = views("distinct", "session", False, 2, 0)
    steps: list[int] = []
    (distinct,) = (o for o in view.compiled.operators if isinstance(o, Distinct))
    rounds = distinct.rounds
    assert rounds is not None

    class Counted:
        def run(self, deltas: tuple[Delta, ...], step: Callable[..., Delta]) -> Delta:
            def counted(*parts: Delta) -> Delta:
                steps.append(sum(p.num_rows for p in parts))
                return step(*parts)

            return rounds.run(deltas, counted)

    distinct.rounds = Counted()  # type: ignore[assignment]
    rows = [(BASE + dt.timedelta(seconds=s), 1, 1) for s in range(100)]
    view.insert(*rows)
    assert steps == [100]
    view.insert(rows[90], rows[90], (BASE + dt.timedelta(seconds=200), 1, 1), rows[90], rows[91])
    # ahead; 90 and 91 under the first watermark that has passed them; 90 under the second
    assert steps[1:] == [1, 3, 1]


SQL = {
    "distinct": "SELECT DISTINCT ts FROM a",
    "group": "SELECT ts, max(k) AS k FROM a GROUP BY ts",
    "union": "SELECT ts FROM a WHERE k > 2 UNION SELECT ts FROM a",
    "except": "SELECT ts FROM a EXCEPT SELECT ts FROM a WHERE k = 1",
}
WINDOWS = (
    "SELECT window_start, count(*) AS n FROM TUMBLE({}, ts, INTERVAL '20 s') "
    "GROUP BY window_start, window_end"
)


def rows_in(db: Database, view: str) -> list[tuple]:
    return sorted(db.execute(f"SELECT * FROM {view}").fetchall())


@pytest.mark.parametrize("name", SQL)
def test_a_view_made_later_judges_the_same_rows_late(name: str) -> None:
    """Over nodes of its own, over shared ones, over a view; VERIFY says so too."""
    with Database() as db:
        db.execute("CREATE TABLE a (k INT, ts TIMESTAMP, WATERMARK FOR ts AS ts)")
        query = WINDOWS.format(f"({SQL[name]})")
        db.execute(f"CREATE MATERIALIZED VIEW before AS {query}")
        db.execute(f"CREATE MATERIALIZED VIEW below AS {SQL[name]}")
        db.execute(f"CREATE MATERIALIZED VIEW above AS {WINDOWS.format('below')}")
        draw = random.Random(name)
        for i in range(12):
            seconds = [max(0, 9 * i + draw.randint(-60, 9)) for _ in range(3)]
            values = [f"({draw.randint(1, 4)}, TIMESTAMP '2024-01-01' + INTERVAL '{s} s')"
                      for s in seconds]  # fmt: skip
            db.execute(f"INSERT INTO a VALUES {', '.join(values)}")
        db.execute(f"CREATE MATERIALIZED VIEW after AS {query}")
        db.execute(f"CREATE MATERIALIZED VIEW above_after AS {WINDOWS.format('below')}")
        wanted = rows_in(db, "before")
        for view in ("above", "after", "above_after"):
            assert rows_in(db, view) == wanted
            assert db.execute(f"VERIFY MATERIALIZED VIEW {view}").fetchall() == []
        db.execute(f"DROP MATERIALIZED VIEW before; CREATE MATERIALIZED VIEW alone AS {query}")
        assert rows_in(db, "alone") == wanted
        late_of = dict(
            db.execute("SELECT view, count(*) FROM streamsql.late_rows GROUP BY view").fetchall()
        )
        assert late_of["above"] > 0
        db.execute("DELETE FROM a")  # all but the last windows are closed, and stay
        assert len(rows_in(db, "above")) >= len(wanted) - 1
        assert db.execute("VERIFY MATERIALIZED VIEW above").fetchall() == []


def test_a_row_that_stands_in_for_one_that_went_keeps_it_on_time() -> None:
    """The first of two equal rows was on time, the second is late, and then the first one goes."""
    with Database() as db:
        db.execute("CREATE TABLE a (k INT, ts TIMESTAMP, WATERMARK FOR ts AS ts)")
        db.execute(f"CREATE MATERIALIZED VIEW v AS {WINDOWS.format('(SELECT DISTINCT ts FROM a)')}")
        at, later = "TIMESTAMP '2024-01-01 00:00:55'", "TIMESTAMP '2024-01-01 00:01:25'"
        for row in (f"(1, {at})", f"(1, {later})", f"(2, {at})"):
            db.execute(f"INSERT INTO a VALUES {row}")
        db.execute("DELETE FROM a WHERE k = 1")
        start = dt.datetime(2024, 1, 1, 0, 0, 40)
        assert rows_in(db, "v") == [(start, 1)]
        assert db.execute("VERIFY MATERIALIZED VIEW v").fetchall() == []
        db.execute("DELETE FROM a")
        assert rows_in(db, "v") == [(start, 1)]
        assert db.execute("VERIFY MATERIALIZED VIEW v").fetchall() == []


def seconds(*times: int) -> list[str]:
    return [f"TIMESTAMP '2024-01-01' + INTERVAL '{t} s'" for t in times]


def test_a_session_that_shrinks_behind_the_watermark_is_late_for_what_is_above() -> None:
    with Database() as db:
        db.execute("CREATE TABLE a (k INT, ts TIMESTAMP, WATERMARK FOR ts AS ts)")
        db.execute(
            "CREATE MATERIALIZED VIEW s AS SELECT k, window_time AS ts, count(*) AS n FROM SESSION(a "
            "PARTITION BY k, ts, INTERVAL '10 s') GROUP BY k, window_start, window_end, window_time"
        )
        db.execute(f"CREATE MATERIALIZED VIEW w AS {WINDOWS.format('s')}")
        for k, at in zip((1, 2, 1, 3), seconds(5, 6, 15, 23), strict=True):
            db.execute(f"INSERT INTO a VALUES ({k}, {at})")
        db.execute(f"DELETE FROM a WHERE ts = {seconds(15)[0]}")  # ends at 15: [0, 20) is closed
        base = dt.datetime(2024, 1, 1)
        assert rows_in(db, "w") == [(base, 1), (base + dt.timedelta(seconds=20), 1)]
        (found,) = db.execute("SELECT view, event_time FROM streamsql.late_rows").fetchall()
        assert found == ("w", base + dt.timedelta(microseconds=14_999_999))
        assert db.execute("VERIFY MATERIALIZED VIEW s").fetchall() == []


def test_rows_given_out_on_close_close_no_windows_over_their_other_times() -> None:
    """They come when the last of their times has passed."""
    with Database() as db:
        db.execute(
            "CREATE TABLE a (k INT, ts TIMESTAMP, WATERMARK FOR ts AS ts);"
            "CREATE TABLE b (k INT, tb TIMESTAMP, WATERMARK FOR tb AS tb);"
            "CREATE MATERIALIZED VIEW pairs AS SELECT a.ts, b.tb FROM a JOIN b ON a.k = b.k AND b.tb "
            "BETWEEN a.ts AND a.ts + INTERVAL '60 s' EMIT ON WINDOW CLOSE;"
            "CREATE MATERIALIZED VIEW tens AS SELECT ts, window_end AS e FROM TUMBLE(a, ts, INTERVAL "
            "'10 s') EMIT ON WINDOW CLOSE;"
        )
        eights = WINDOWS.replace("20 s", "8 s")
        for view in ("pairs", "tens"):
            db.execute(f"CREATE MATERIALIZED VIEW over_{view} AS {eights.format(view)}")
        for at in seconds(1, 2, 11, 15, 30, 31, 100):
            db.execute(f"INSERT INTO a VALUES (1, {at}); INSERT INTO b VALUES (1, {at})")
        for view in ("pairs", "tens"):
            wanted = db.execute(eights.format(view)).fetchall()
            assert rows_in(db, f"over_{view}") == sorted(wanted)
            with pytest.raises(FeatureNotSupported, match="EMIT ON WINDOW CLOSE"):
                db.execute(
                    f"CREATE MATERIALIZED VIEW x AS {eights.format(view)} EMIT ON WINDOW CLOSE"
                )
