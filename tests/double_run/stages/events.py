"""Event time: windows of all kinds, closing, interval and window joins, the manual clock.

t(id PK, k, v, ts)  no watermark: rows are changed freely
c(id, k, v, ts WATERMARK), i(id, k, w, ts WATERMARK)  streams; the histories keep within the bound
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ...oracle.batch import Shape, hop, session, tumble
from ..harness import Stage, Table
from .small import START, ints, times

# the manual clock only goes forward, from the machine's time
LATER = datetime.datetime(2100, 1, 1)


def rows(value: str, start: datetime.datetime = START) -> Callable[..., pa.Table]:
    def make(random: np.random.Generator, scale: int) -> pa.Table:
        n = 60 * scale
        return pa.table({
            "id": pa.array(np.arange(1, n + 1, dtype=np.int32)), "k": ints(random, 0, 4, n),
            value: ints(random, 0, 12, n), "ts": times(random, n, start=start),
        })  # fmt: skip

    return make


PLAIN = Table("t", "id INT PRIMARY KEY, k INT, v INT, ts TIMESTAMP", rows("v"), "id", "v")
# the bound is wider than all the data: nothing is late, whatever the order
STREAMS = tuple(
    Table(
        name,
        f"id INT, k INT, {value} INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1 day'",
        rows(value), "id", options=options, grows=bool(options),
        bump=None if options else value,
    )
    for name, value, options in (("c", "v", "APPEND ONLY"), ("i", "w", ""))
)  # fmt: skip

M = "INTERVAL '1 minute'"


def cumulate(step: int, size: int, table: str = "t") -> str:
    """Every row in each growing window of its span that covers it."""
    return (
        f"(SELECT q.*, b AS window_start, b + to_seconds(s) AS window_end FROM "
        f"(SELECT *, time_bucket(INTERVAL '{size} seconds', ts, TIMESTAMP '1970-01-01') AS b FROM {table} "
        f"WHERE ts IS NOT NULL) q, range({step}, {size + 1}, {step}) r(s) WHERE ts < b + to_seconds(s))"
    )


def windowed(what: str, window: str, oracle: str, by: str) -> tuple[str, str]:
    """(ours, DuckDB's) of an aggregate over a window."""
    return (
        f"SELECT {by}, {what} FROM {window} GROUP BY {by}",
        f"SELECT {by}, {what} FROM {oracle} GROUP BY {by}",
    )


WS = "window_start, window_end"
N = "count(*) AS n, sum(v) AS s"
PAIRS: dict[str, tuple[str, str]] = {
    "tumble": windowed(N, f"TUMBLE(t, ts, {M})", tumble(60), WS),
    "tumble_key": windowed(f"{N}, max(v) AS m", f"TUMBLE(t, ts, {M})", tumble(60), f"{WS}, k"),
    "tumble_distinct": windowed("count(DISTINCT v) AS n", f"TUMBLE(t, ts, {M})", tumble(60), WS),
    "tumble_ordered": windowed("array_agg(id ORDER BY ts, id) AS a", f"TUMBLE(t, ts, {M})", tumble(60), WS),
    "tumble_filtered": windowed("count(*) FILTER (WHERE v > 5) AS n", f"TUMBLE(t, ts, {M})", tumble(60), WS),
    "tumble_median": windowed("percentile_cont(0.5) WITHIN GROUP (ORDER BY v) AS p", f"TUMBLE(t, ts, {M})", tumble(60), WS),
    "tumble_having": (
        f"SELECT {WS}, {N} FROM TUMBLE(t, ts, {M}) GROUP BY {WS} HAVING count(*) > 4",
        f"SELECT {WS}, {N} FROM {tumble(60)} GROUP BY {WS} HAVING count(*) > 4",
    ),
    "tumble_start_only": windowed(N, f"TUMBLE(t, ts, {M})", tumble(60), "window_start"),
    "tumble_rows": (f"SELECT id, {WS} FROM TUMBLE(t, ts, {M}) WHERE v > 3", f"SELECT id, {WS} FROM {tumble(60)} WHERE v > 3"),
    "tumble_time": (
        f"SELECT id, window_time FROM TUMBLE(t, ts, {M})",
        f"SELECT id, window_end - INTERVAL 1 MICROSECOND AS window_time FROM {tumble(60)}",
    ),
    "tumble_offset": (
        f"SELECT window_start, {N} FROM TUMBLE(t, ts, {M}, INTERVAL '15 seconds') GROUP BY 1",
        f"SELECT time_bucket({M}, ts, TIMESTAMP '1970-01-01 00:00:15') AS w, {N} FROM t WHERE ts IS NOT NULL GROUP BY 1",
    ),
    "tumble_subquery": windowed(N, f"TUMBLE((SELECT * FROM t WHERE k > 0), ts, {M})", f"(SELECT * FROM {tumble(60)} WHERE k > 0)", WS),
    "tumble_old_spelling": (
        f"SELECT TUMBLE_START(ts, {M}) AS s, k, count(*) AS n FROM t GROUP BY TUMBLE(ts, {M}), k",
        f"SELECT window_start, k, count(*) AS n FROM {tumble(60)} GROUP BY window_start, k",
    ),
    "tumble_flink": (
        "SELECT window_start, sum(v) AS s FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end",
        f"SELECT window_start, sum(v) AS s FROM {tumble(60)} GROUP BY window_start",
    ),
    "tumble_month": (
        "SELECT window_start, window_end, count(*) AS n FROM TUMBLE(t, ts, INTERVAL '1 month') GROUP BY 1, 2",
        "SELECT a, a + INTERVAL 1 MONTH AS b, count(*) AS n FROM (SELECT date_trunc('month', ts)::TIMESTAMP AS a FROM t WHERE ts IS NOT NULL) GROUP BY a",
    ),
    "tumble_of_tumble": (
        f"SELECT window_start, sum(n) AS n FROM TUMBLE((SELECT window_start AS ws, count(*) AS n FROM TUMBLE(t, ts, {M}) GROUP BY window_start, window_end), ws, INTERVAL '3 minutes') GROUP BY window_start",
        f"SELECT window_start, count(*) AS n FROM {tumble(180)} GROUP BY window_start",
    ),
    "tumble_top": (
        f"SELECT window_start, k, n FROM (SELECT window_start, k, count(*) AS n, row_number() OVER (PARTITION BY window_start ORDER BY count(*) DESC, k) AS r FROM TUMBLE(t, ts, {M}) GROUP BY window_start, k) x WHERE r <= 2",
        f"SELECT window_start, k, n FROM (SELECT window_start, k, count(*) AS n, row_number() OVER (PARTITION BY window_start ORDER BY count(*) DESC, k) AS r FROM {tumble(60)} GROUP BY window_start, k) x WHERE r <= 2",
    ),
    "tumble_rollup": (
        f"SELECT window_start, k, count(*) AS n FROM TUMBLE(t, ts, {M}) GROUP BY ROLLUP (window_start, k)",
        f"SELECT window_start, k, count(*) AS n FROM {tumble(60)} GROUP BY ROLLUP (window_start, k)",
    ),
    "hop": windowed(N, f"HOP(t, ts, INTERVAL '20 seconds', {M})", hop(20, 60), WS),
    "hop_key": windowed("avg(v) AS a, min(v) AS m", f"HOP(t, ts, INTERVAL '20 seconds', {M})", hop(20, 60), f"{WS}, k"),
    "hop_uneven": windowed(N, "HOP(t, ts, INTERVAL '25 seconds', INTERVAL '60 seconds')", hop(25, 60), WS),
    "hop_holes": windowed(N, f"HOP(t, ts, {M}, INTERVAL '20 seconds')", hop(60, 20), WS),
    "hop_distinct": windowed("count(DISTINCT k) AS n", f"HOP(t, ts, INTERVAL '30 seconds', {M})", hop(30, 60), WS),
    "hop_rows": (f"SELECT id, window_start FROM HOP(t, ts, INTERVAL '30 seconds', {M})", f"SELECT id, window_start FROM {hop(30, 60)}"),
    "hop_max": windowed("max(v) AS m, string_agg(v::text, ',' ORDER BY id) AS a", f"HOP(t, ts, INTERVAL '20 seconds', {M})", hop(20, 60), "window_start"),
    "cumulate": windowed(N, "CUMULATE(t, ts, INTERVAL '30 seconds', INTERVAL '2 minutes')", cumulate(30, 120), WS),
    "cumulate_key": windowed("count(DISTINCT v) AS n", "CUMULATE(t, ts, INTERVAL '60 seconds', INTERVAL '3 minutes')", cumulate(60, 180), f"{WS}, k"),
    "session": windowed(N, "SESSION(t PARTITION BY k, ts, INTERVAL '20 seconds')", session(20), f"{WS}, k"),
    "session_global": windowed(N, "SESSION(t, ts, INTERVAL '8 seconds')", session(8, ""), WS),
    "session_rows": (
        "SELECT id, window_start, window_end FROM SESSION(t PARTITION BY k, ts, INTERVAL '15 seconds')",
        f"SELECT id, window_start, window_end FROM {session(15)}",
    ),
    "session_ordered": windowed("array_agg(id ORDER BY ts, id) AS a", "SESSION(t PARTITION BY k, ts, INTERVAL '20 seconds')", session(20), f"{WS}, k"),
    "session_max": windowed("max(v) AS m, count(DISTINCT v) AS n", "SESSION(t PARTITION BY k, ts, INTERVAL '30 seconds')", session(30), f"{WS}, k"),
    "session_longest": (
        "SELECT k, max(n) AS n FROM (SELECT k, window_start, count(*) AS n FROM SESSION(t PARTITION BY k, ts, INTERVAL '20 seconds') GROUP BY k, window_start, window_end) x GROUP BY k",
        f"SELECT k, max(n) AS n FROM (SELECT k, window_start, count(*) AS n FROM {session(20)} GROUP BY k, window_start) x GROUP BY k",
    ),
    "window_self_join": (
        f"SELECT a.id, b.id AS j FROM TUMBLE(t, ts, {M}) a JOIN TUMBLE(t, ts, {M}) b ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.k = b.k AND a.id < b.id",
        f"SELECT a.id, b.id AS j FROM {tumble(60)} a JOIN {tumble(60)} b ON a.window_start = b.window_start AND a.k = b.k AND a.id < b.id",
    ),
    "interval_self_join": (
        "SELECT a.id, b.id AS j FROM t a JOIN t b ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL '20 seconds' AND a.ts + INTERVAL '5 seconds'",
        "SELECT a.id, b.id AS j FROM t a JOIN t b ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL '20 seconds' AND a.ts + INTERVAL '5 seconds'",
    ),
}  # fmt: skip

# over streams with a watermark
STREAMED: dict[str, tuple[str, str]] = {
    "tumble": windowed(N, f"TUMBLE(c, ts, {M})", tumble(60, "c"), WS),
    "tumble_key": windowed("sum(w) AS s", f"TUMBLE(i, ts, {M})", tumble(60, "i"), f"{WS}, k"),
    "hop": windowed(N, f"HOP(c, ts, INTERVAL '20 seconds', {M})", hop(20, 60, "c"), f"{WS}, k"),
    "cumulate": windowed("count(*) AS n", "CUMULATE(i, ts, INTERVAL '30 seconds', INTERVAL '2 minutes')", cumulate(30, 120, "i"), WS),
    "session": windowed(N, "SESSION(c PARTITION BY k, ts, INTERVAL '20 seconds')", session(20, table="c"), f"{WS}, k"),
    "session_i": windowed("count(*) AS n", "SESSION(i PARTITION BY k, ts, INTERVAL '20 seconds')", session(20, table="i"), f"{WS}, k"),
    "window_join": (
        f"SELECT a.id, b.id AS j, a.window_start FROM TUMBLE(c, ts, {M}) a JOIN TUMBLE(i, ts, {M}) b ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.k = b.k",
        f"SELECT a.id, b.id AS j, a.window_start FROM {tumble(60, 'c')} a JOIN {tumble(60, 'i')} b ON a.window_start = b.window_start AND a.k = b.k",
    ),
    "interval_join": (
        "SELECT a.id, b.id AS j, a.ts FROM c a JOIN i b ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL '20 seconds' AND a.ts + INTERVAL '10 seconds'",
        "SELECT a.id, b.id AS j, a.ts FROM c a JOIN i b ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL '20 seconds' AND a.ts + INTERVAL '10 seconds'",
    ),
    "top": (
        f"SELECT window_start, id FROM (SELECT *, row_number() OVER (PARTITION BY window_start, window_end ORDER BY v DESC, id) AS r FROM TUMBLE(c, ts, {M})) x WHERE r <= 2",
        f"SELECT window_start, id FROM (SELECT *, row_number() OVER (PARTITION BY window_start ORDER BY v DESC, id) AS r FROM {tumble(60, 'c')}) x WHERE r <= 2",
    ),
}  # fmt: skip
CLOSING: dict[str, tuple[str, str]] = {
    **STREAMED,
    "over": (
        "SELECT id, lag(v) OVER (PARTITION BY k ORDER BY ts, id) AS p, ts FROM c WHERE ts IS NOT NULL",
        "SELECT id, lag(v) OVER (PARTITION BY k ORDER BY ts, id) AS p, ts FROM c WHERE ts IS NOT NULL",
    ),
    "plain": ("SELECT id, k, ts FROM c WHERE ts IS NOT NULL", "SELECT id, k, ts FROM c WHERE ts IS NOT NULL"),
}  # fmt: skip

# now() is 2100-01-01 00:05:00 at the end of every history
NOW = "TIMESTAMP '2100-01-01 00:05:00'"
CLOCKED: dict[str, str] = {
    "recent": "SELECT id FROM t WHERE ts > {now} - INTERVAL '2 minutes'",
    "recent_closed": "SELECT id FROM t WHERE ts >= {now} - INTERVAL '2 minutes' AND ts < {now}",
    "old": "SELECT id FROM t WHERE ts + INTERVAL '3 minutes' <= {now}",
    "future": "SELECT id FROM t WHERE ts > {now}",
    "between": "SELECT id FROM t WHERE {now} BETWEEN ts AND ts + INTERVAL '100 seconds'",
    "or": "SELECT id FROM t WHERE ts > {now} - INTERVAL '1 minute' OR v = 3",
    "count": "SELECT k, count(*) AS n, sum(v) AS s FROM t WHERE ts > {now} - INTERVAL '4 minutes' GROUP BY k",
    "join": "SELECT t.id, i.id AS j FROM t JOIN i ON t.k = i.k WHERE t.ts > {now} - INTERVAL '1 minute' AND i.ts < {now}",
    "top": "SELECT id FROM t WHERE ts < {now} ORDER BY ts DESC, id LIMIT 5",
    "column": "SELECT id, w.v FROM i JOIN (SELECT k, max(v) AS v FROM t WHERE ts <= {now} GROUP BY k) w ON w.k = i.k",
    "exists": "SELECT id FROM i WHERE EXISTS (SELECT 1 FROM t WHERE t.k = i.k AND t.ts > {now} - INTERVAL '90 seconds')",
    "distinct": "SELECT DISTINCT v FROM t WHERE ts > {now} - INTERVAL '3 minutes'",
}  # fmt: skip


def clocked() -> tuple[Shape, ...]:
    return tuple(
        Shape(f"clock_{n}", s.format(now="now()::timestamp"), s.format(now=NOW))
        for n, s in CLOCKED.items()
    )


STAGE = Stage(
    "windows", (PLAIN,), tuple(Shape(f"window_{n}", *texts) for n, texts in PAIRS.items())
)
STREAM_STAGE = Stage(
    "streams",
    STREAMS,
    (
        *(Shape(f"stream_{n}", *texts) for n, texts in STREAMED.items()),
        *(Shape(f"closed_{n}", *texts, emit="EMIT ON WINDOW CLOSE") for n, texts in CLOSING.items()),
    ),
    finish=tuple(f"ADVANCE WATERMARK FOR {t} TO '2024-01-02 00:00:00'" for t in ("c", "i")),
)  # fmt: skip
LATER_TABLES = (
    replace(PLAIN, rows=rows("v", LATER)),
    replace(STREAMS[1], rows=rows("w", LATER)),
)
CLOCK_STAGE = Stage(
    "clock",
    LATER_TABLES,
    clocked(),
    before=("SET streamsql.clock = 'manual'", "ADVANCE CLOCK TO '2099-12-31 23:58:00+00'"),
    middle=("ADVANCE CLOCK TO '2100-01-01 00:00:30+00'", "ADVANCE CLOCK BY INTERVAL '100 seconds'",
            "ADVANCE CLOCK TO '2100-01-01 00:05:00+00'"),
)  # fmt: skip
