"""The watermark of a table or source, row by row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import streamsql
from streamsql.core.logical_time import NO_WATERMARK
from streamsql.engine.storage.watermarks import WatermarkPolicy, WatermarkTracker, to_us

NOW = 10**15
S = 1_000_000


def rows(*seconds: int | None) -> pa.RecordBatch:
    values = [None if s is None else NOW + s * S for s in seconds]
    return pa.record_batch([pa.array(values, pa.timestamp("us"))], names=["c0"])


@pytest.fixture
def make():
    def tracker(**options) -> WatermarkTracker:
        return WatermarkTracker(
            0, lambda batch, now: to_us(batch.column(0)), WatermarkPolicy(**options)
        )

    return tracker


def seconds(us) -> list[int | None]:
    return [None if u == NO_WATERMARK else (int(u) - NOW) // S for u in np.asarray(us)]


def test_running_maximum_is_taken_before_each_row(make):
    tracker = make()
    found = tracker.observe(rows(5, 3, 9, None, 7), NOW)
    assert seconds(found.before) == [None, 5, 5, 9, 9]
    assert seconds([tracker.value]) == [9]


def test_cutting_into_batches_changes_nothing(make):
    values = [5, 3, 9, None, 7, 20, 1]
    whole = seconds(make().observe(rows(*values), NOW).before)
    tracker = make()
    parts = [seconds(tracker.observe(rows(v), NOW).before)[0] for v in values]
    assert parts == whole


def test_rows_too_far_ahead_do_not_move_it(make):
    tracker = make(max_future_us=60 * S)
    found = tracker.observe(rows(1, 1000, 2), NOW)
    assert seconds(found.before) == [None, 1, 1]
    assert found.ahead.tolist() == [1]
    assert make(max_future_us=None).observe(rows(1000), NOW).ahead.size == 0


def test_slowest_partition_holds_it_back_until_idle(make):
    tracker = make(idle_timeout_us=30 * S)
    tracker.observe(rows(10), NOW, "a")
    assert seconds(tracker.observe(rows(4), NOW, "b").before) == [10]
    assert seconds([tracker.value]) == [10]  # it never falls
    tracker.observe(rows(50), NOW + 20 * S, "a")
    assert seconds([tracker.value]) == [10]
    assert tracker.held_back_by(NOW + 20 * S) == "b"
    assert tracker.next_due_us(NOW + 20 * S) == NOW + 30 * S
    assert tracker.next_due_us(NOW + 31 * S) == NOW + 31 * S  # overdue is due
    assert tracker.clock(NOW + 31 * S)
    assert seconds([tracker.value]) == [50]


def test_when_all_are_idle_it_moves_with_the_clock(make):
    tracker = make(idle_timeout_us=30 * S)
    tracker.observe(rows(10), NOW)
    assert not tracker.clock(NOW + 29 * S)
    assert tracker.next_due_us(NOW + 29 * S) == NOW + 30 * S
    assert tracker.clock(NOW + 30 * S)
    assert seconds([tracker.value]) == [40]
    assert tracker.clock(NOW + 100 * S)
    assert seconds([tracker.value]) == [110]
    tracker.observe(rows(60), NOW + 101 * S)
    assert seconds([tracker.value]) == [110]


def test_the_clock_moves_an_idle_one_again_and_again(make):
    tracker = make(idle_timeout_us=4 * S)
    tracker.observe(rows(10), NOW)
    assert tracker.clock(NOW + 4 * S)
    for now in (NOW + 4 * S, NOW + 4 * S + 500_000):
        assert tracker.next_due_us(now) == NOW + 5 * S  # however often it is asked
    assert tracker.clock(NOW + 5 * S)
    assert seconds([tracker.value]) == [15]
    assert tracker.next_due_us(NOW + 5 * S) == NOW + 6 * S
    tracker.advance_to(NOW + 100 * S, NOW + 5 * S)  # by hand: the clock reaches it at 90
    assert tracker.next_due_us(NOW + 5 * S) == NOW + 91 * S
    assert not tracker.clock(NOW + 90 * S)
    assert tracker.clock(NOW + 91 * S)


def test_without_idle_timeout_the_clock_does_nothing(make):
    tracker = make()
    tracker.observe(rows(10), NOW)
    assert not tracker.clock(NOW + 10**6 * S)
    assert tracker.next_due_us(NOW) is None


def test_save_and_load_go_on(make):
    tracker = make(idle_timeout_us=30 * S)
    tracker.observe(rows(10), NOW, "a")
    tracker.clock(NOW + 40 * S)
    other = make(idle_timeout_us=30 * S)
    other.load(tracker.save())
    assert other.state == tracker.state


def test_dates_count_in_days():
    assert to_us(pa.array([1, None], pa.date32())).tolist() == [86_400 * S, NO_WATERMARK]


def test_idle_table_closes_its_last_window(db):
    db.execute("SET streamsql.clock = 'manual'")
    db.execute(
        "CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH (idle_timeout = '1 minute')"
    )
    db.execute(
        "CREATE MATERIALIZED VIEW w AS SELECT window_end, count(*) AS n "
        "FROM TUMBLE(t, ts, INTERVAL '1 minute') GROUP BY window_end EMIT ON WINDOW CLOSE"
    )
    db.execute("INSERT INTO t VALUES ('2024-01-01 00:00:10')")
    db.execute("ADVANCE CLOCK BY INTERVAL '49 seconds'")
    assert db.execute("SELECT n FROM w").fetchall() == []
    db.execute("ADVANCE CLOCK BY INTERVAL '12 seconds'")
    assert db.execute("SELECT n FROM w").fetchall() == [(1,)]


def test_allowed_lateness_keeps_windows_open(db):
    db.execute(
        "CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH (allowed_lateness = '1 hour')"
    )
    db.execute(
        "CREATE MATERIALIZED VIEW w AS SELECT window_start, count(*) AS n "
        "FROM TUMBLE(t, ts, INTERVAL '1 minute') GROUP BY window_start"
    )
    db.execute("INSERT INTO t VALUES ('2024-01-01 01:00:00'), ('2024-01-01 00:30:00')")
    assert db.execute("SELECT sum(n) FROM w").fetchall() == [(2,)]
    db.execute("INSERT INTO t VALUES ('2024-01-01 03:00:00'), ('2024-01-01 00:30:00')")
    assert db.execute("SELECT sum(n) FROM w").fetchall() == [(3,)]


# --- the adaptive form --------------------------------------------------------------------------
def reference(times: list[int], fraction: float, span_us: int) -> list[int]:
    """The percentile of exact disorders, by sixteenths of the span."""
    part, newest, seen, found = span_us // 16, None, [], []
    for t in times:
        late = max(0, newest - t) if newest is not None else 0
        newest = t if newest is None else max(newest, t)
        seen.append((t, late))
        inside = sorted(d for at, d in seen if at // part > newest // part - 16)
        found.append(newest - inside[max(0, int(np.ceil(fraction * len(inside))) - 1)])
    return found


@pytest.mark.parametrize("seed", range(3))
def test_percentile_follows_the_disorder_to_a_sixteenth(seed):
    from streamsql.engine.storage.adaptive import Disorder

    draw = np.random.default_rng(seed)
    times = np.arange(400) * S + draw.integers(0, 30 * S, 400) * (draw.random(400) < 0.3)
    values, _ = Disorder.none().observe(times, 0.9, 100 * S)
    newest = np.maximum.accumulate(times)
    exact = newest - np.array(reference(times.tolist(), 0.9, 100 * S))
    delay = newest - values
    assert (delay >= exact).all()
    assert (delay <= exact * (1 + 1 / 16) + 1).all()


def test_percentile_does_not_depend_on_batches_and_survives_a_save(make):
    from streamsql.engine.storage.adaptive import Disorder

    draw = np.random.default_rng(5)
    times = draw.integers(0, 1000 * S, 300)
    whole, _ = Disorder.none().observe(times, 0.99, 600 * S)
    state, parts = Disorder.none(), []
    for part in np.array_split(times, 7):
        values, state = state.observe(part, 0.99, 600 * S)
        parts.append(values)
        state = Disorder.load(state.save())
    assert np.concatenate(parts).tolist() == whole.tolist()


def test_percentile_watermark_of_a_table(db):
    db.execute(
        "CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS PERCENTILE(0.9, INTERVAL '10 minutes'))"
    )
    db.execute("INSERT INTO t VALUES ('2024-01-01 00:00:00'), ('2024-01-01 00:01:00')")
    first = db.execute("SELECT watermark::text FROM streamsql.watermarks").fetchall()
    assert first == [("2024-01-01 00:01:00",)]
    rows_ = ", ".join(f"('2024-01-01 00:0{i}:30')" for i in (1, 0, 0, 2, 1, 1, 1))
    db.execute(f"INSERT INTO t VALUES {rows_}, ('2024-01-01 00:09:00')")
    (found,) = db.execute("SELECT watermark::text FROM streamsql.watermarks").fetchall()[0]
    assert "2024-01-01 00:07:50" <= found < "2024-01-01 00:09:00"


def test_rows_too_far_ahead_warn_who_wrote_them():
    with streamsql.connect() as db:
        db.execute("CREATE TABLE t (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts)")
        written = db.execute("INSERT INTO t VALUES (1, '2300-01-01'), (2, '2024-01-01')")
        (warning,) = written.notices
        assert (warning.severity, warning.sqlstate) == ("WARNING", "01000")
        assert warning.message.startswith(
            '1 row is further ahead of the clock than max_future of "t"'
        )
        reasons = db.execute("SELECT source, payload FROM streamsql.source_errors").fetchall()
        assert reasons == [("t", '{"id":1,"ts":"2300-01-01 00:00:00"}')]
        assert db.execute("INSERT INTO t VALUES (3, '2024-01-01')").notices == []
        db.execute("BEGIN")
        db.execute("INSERT INTO t VALUES (4, '2300-01-01'), (5, '2300-01-02')")
        (warning,) = db.execute("COMMIT").notices
        assert warning.message.startswith("2 rows are")
        db.execute("ALTER TABLE t SET (max_future = 'off')")
        assert db.execute("INSERT INTO t VALUES (6, '2300-01-01')").notices == []


@pytest.mark.parametrize("kind", ["SOURCE", "TABLE"])
def test_rows_of_a_connector_too_far_ahead_are_in_the_source_errors(tmp_path, kind):
    path = tmp_path / "rows.csv"
    path.write_text("id,ts\n1,2024-01-01 00:00:00\n2,2300-01-01 00:00:00\n3,2024-01-01 00:00:01\n")
    with streamsql.connect() as db:
        db.execute(
            f"CREATE {kind} s (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) "
            f"WITH (connector = 'file', path = '{path}', format = 'csv', header = true)"
        )
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT id FROM s")
        db.execute("FLUSH")
        assert db.execute("SELECT count(*) FROM v").fetchall() == [(3,)]
        reported = db.execute("SELECT source, payload FROM streamsql.source_errors").fetchall()
        assert reported == [("s", '{"id":2,"ts":"2300-01-01 00:00:00"}')]
        query = "SELECT watermark::text FROM streamsql.watermarks WHERE relation = 's'"
        assert db.execute(query).fetchall() == [("2024-01-01 00:00:01",)]


def test_a_row_that_is_centuries_late_is_dropped_like_others():
    """Nanoseconds of an interval hold 292 years; then it tells days."""
    with streamsql.connect() as db:
        db.execute("CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS ts)")
        db.execute("INSERT INTO t VALUES ('2026-01-01'), ('0001-01-01'), ('1999-12-31 23:00:00')")
        for name in ("v", "w"):
            db.execute(
                f"CREATE MATERIALIZED VIEW {name} AS SELECT window_start, count(*) AS n FROM "
                "TUMBLE(t, ts, INTERVAL '1 day') GROUP BY 1"
            )
        db.execute("INSERT INTO t VALUES ('4713-01-01 BC')")
        assert db.execute("SELECT count(*), sum(n) FROM v").fetchall() == [(1, 1)]
        late = "SELECT late_by::text FROM streamsql.late_rows WHERE view = '{}' ORDER BY event_time"
        for name in ("v", "w"):
            assert db.execute(late.format(name)).fetchall() == [
                ("2461004 days",), ("739616 days",), ("227929:00:00",),
            ]  # fmt: skip
        assert db.execute("VERIFY MATERIALIZED VIEW v").fetchall() == []
