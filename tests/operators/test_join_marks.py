"""Late pairs of joins over two watermarked inputs, however a relation's rows are cut into ticks."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter

import pytest

from streamsql.core.schema import Schema
from streamsql.core.types import INTEGER, TIMESTAMP
from tests.operators.harness import Event, Table, View, rows_of, view_of

BASE = dt.datetime(2024, 6, 1, 10)
SCHEMA = Schema.of(("ts", TIMESTAMP), ("k", INTEGER), ("v", INTEGER))
TIMED = Table(SCHEMA, append_only=True, watermark_column=0, watermark_delay_us=2_000_000)
A, B = "TUMBLE(t0, ts, INTERVAL '5 seconds') a", "TUMBLE(t1, ts, INTERVAL '7 seconds') b"
QUERIES = {
    "windows of their own": f"SELECT a.window_end, b.window_end, a.v FROM {A} JOIN {B} ON a.k = b.k",
    "left": f"SELECT a.window_end, b.window_end, a.v FROM {A} LEFT JOIN {B} ON a.k = b.k",
    "exists": f"SELECT a.window_end, a.v FROM {A} WHERE EXISTS (SELECT 1 FROM {B} WHERE a.k = b.k)",
    "by a condition": f"SELECT a.window_end, b.window_end, a.v FROM {A} LEFT JOIN {B} "
    "ON a.k = b.k AND a.v < b.v",
    "window over a join": "SELECT window_end, count(*) FROM TUMBLE((SELECT t0.ts, t1.v FROM t0 "
    "JOIN t1 ON t0.k = t1.k), ts, INTERVAL '5 seconds') GROUP BY window_end, window_start",
    "union": "SELECT window_end, count(*) FROM TUMBLE((SELECT ts FROM t0 UNION ALL SELECT ts FROM "
    "t1), ts, INTERVAL '5 seconds') GROUP BY window_end, window_start",
    "union with itself": "SELECT window_end, count(*) FROM TUMBLE((SELECT ts FROM t0 WHERE k = 1 "
    "UNION ALL SELECT ts FROM t0), ts, INTERVAL '5 seconds') GROUP BY window_end, window_start",
    "self join": "SELECT window_end, count(*) FROM TUMBLE((SELECT a.ts FROM t0 a JOIN t0 b ON "
    "a.v = b.v), ts, INTERVAL '5 seconds') GROUP BY window_end, window_start",
    "window over an interval join": "SELECT window_end, count(*) FROM TUMBLE((SELECT t0.ts, t1.v "
    "FROM t0 JOIN t1 ON t0.k = t1.k AND t0.ts BETWEEN t1.ts - INTERVAL '9 seconds' AND "
    "t1.ts + INTERVAL '9 seconds'), ts, INTERVAL '5 seconds') GROUP BY window_end, window_start",
}


def runs(seed: int) -> list[list[Event]]:
    """Runs of rows, each of one relation."""
    rng = random.Random(seed)
    now, out = 0, []
    for _ in range(12):
        relation, run = rng.randint(0, 1), []
        for _ in range(rng.randint(1, 6)):
            now += rng.randint(0, 3)
            time = BASE + dt.timedelta(seconds=now - rng.randint(0, 5))
            run.append((relation, (time, rng.randint(1, 2), rng.randint(0, 9)), 1))
        out.append(run)
    return out


def late(view: View) -> Counter[tuple]:
    return Counter(row for found in view.late for row in rows_of(found.batch))


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("seed", range(4))
def test_cuts_within_a_relation_s_rows_do_not_matter(name: str, seed: int) -> None:
    history = runs(seed)
    whole, cut = (view_of(QUERIES[name], [TIMED, TIMED]) for _ in range(2))
    for i, run in enumerate(history):
        whole.step(run)
        for event in run:
            cut.step([event])
        if i == 6:
            cut.restart()
        assert cut.output == whole.output
    assert late(cut) == late(whole)


def test_there_are_late_pairs_at_all() -> None:
    view = view_of(QUERIES["windows of their own"], [TIMED, TIMED])
    for run in runs(1):
        view.step(run)
    assert late(view)


def test_rows_of_a_union_wait_for_its_slowest_input() -> None:
    """What is ahead of a window's close by its own table is on time while another table is not."""
    query = (
        "SELECT window_end, count(*) FROM TUMBLE((SELECT ts FROM t0 UNION ALL SELECT ts FROM t1), "
        "ts, INTERVAL '10 seconds') GROUP BY window_end, window_start"
    )
    view = view_of(query, [TIMED, TIMED])
    for relation, second in ((1, 5), (0, 65), (0, 15), (1, 65), (1, 90), (0, 20)):
        view.step([(relation, (BASE + dt.timedelta(seconds=second), 1, 1), 1)])
    counts = {end.minute * 60 + end.second: n for end, n in view.output}
    assert counts == {10: 1, 20: 1, 70: 2, 100: 1}
    assert [row[0].second for row in late(view)] == [20]
