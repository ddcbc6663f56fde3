"""Views over streams whose windows close: what is held after 200, 600 and 1,000 windows."""

from __future__ import annotations

import gc
import json
import re
import threading
from typing import Any

import numpy as np
import pyarrow as pa

from streamsql_server.benchmark.feed import FEEDS, Feed, register

WINDOWS = 1_000
MARKS = (200, 600, 1_000)
ROWS = 400  # a window and stream
WINDOW_S = 10
KEYS = 40
EPOCH_US = 1_700_000_000_000_000

WINDOWED = {
    "aggregate": (
        "SELECT window_start, window_end, count(*) AS n FROM (SELECT window_start, "
        "window_end, k, sum(v) AS s FROM TUMBLE(a, ts, INTERVAL '10 seconds') GROUP BY "
        "1, 2, 3) x GROUP BY 1, 2"
    ),
    "aggregate on close": (
        "SELECT window_start, window_end, sum(v) AS s, count(DISTINCT k) AS n FROM "
        "TUMBLE(a, ts, INTERVAL '10 seconds') GROUP BY 1, 2 EMIT ON WINDOW CLOSE"
    ),
    "hop": (
        "SELECT window_start, window_end, sum(v) AS s FROM HOP(a, ts, INTERVAL '5 "
        "seconds', INTERVAL '10 seconds') GROUP BY 1, 2 EMIT ON WINDOW CLOSE"
    ),
    "session": (
        "SELECT max(n) AS n FROM (SELECT window_start, window_end, k, count(*) AS n "
        "FROM SESSION(a PARTITION BY k, ts, INTERVAL '2 seconds') GROUP BY 1, 2, 3) x"
    ),
    "session on close": (
        "SELECT window_start, window_end, k, count(*) AS n FROM SESSION(a PARTITION BY "
        "k, ts, INTERVAL '20 seconds') GROUP BY 1, 2, 3 EMIT ON WINDOW CLOSE"
    ),
    "window join": (
        "SELECT count(*) AS n FROM TUMBLE(a, ts, INTERVAL '10 seconds') x JOIN "
        "TUMBLE(b, ts, INTERVAL '10 seconds') y ON x.window_start = y.window_start AND "
        "x.window_end = y.window_end AND x.k = y.k"
    ),
    "interval join": (
        "SELECT count(*) AS n FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts - "
        "INTERVAL '3 seconds' AND a.ts"
    ),
    "top-n on close": (
        "SELECT window_start, window_end, k FROM (SELECT *, row_number() OVER "
        "(PARTITION BY window_start, window_end ORDER BY v DESC, k) AS r FROM TUMBLE(a, "
        "ts, INTERVAL '10 seconds')) x WHERE r <= 1 EMIT ON WINDOW CLOSE"
    ),
    "as-of on close": (
        "SELECT a.k, b.v FROM a ASOF JOIN b ON a.k = b.k AND b.ts <= a.ts WHERE a.v = 7 "
        "EMIT ON WINDOW CLOSE"
    ),
    "hold-back": ("SELECT k, v, ts FROM a WHERE v = 7 EMIT ON WINDOW CLOSE"),
    "over on close": (
        "SELECT k, p, ts FROM (SELECT k, ts, lag(v) OVER (PARTITION BY k ORDER BY ts) "
        "AS p FROM a) x WHERE p = 7 EMIT ON WINDOW CLOSE"
    ),
    "interval join on close": (
        "SELECT a.k, a.ts, b.v FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL "
        "'3 seconds' AND a.ts WHERE a.v = 7 EMIT ON WINDOW CLOSE"
    ),
    "outer interval join on close": (
        "SELECT a.k, a.ts, b.v FROM a LEFT JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts - "
        "INTERVAL '3 seconds' AND a.ts WHERE a.v = 7 EMIT ON WINDOW CLOSE"
    ),
    "anti interval join on close": (
        "SELECT a.k, a.ts FROM a WHERE a.v = 7 AND NOT EXISTS (SELECT 1 FROM b WHERE a.k = b.k "
        "AND b.ts BETWEEN a.ts - INTERVAL '3 seconds' AND a.ts) EMIT ON WINDOW CLOSE"
    ),
    "full window join on close": (
        "SELECT x.window_start, y.window_start AS other, x.k, y.v FROM TUMBLE(a, ts, INTERVAL "
        "'10 seconds') x FULL JOIN TUMBLE(b, ts, INTERVAL '10 seconds') y ON x.window_start = "
        "y.window_start AND x.window_end = y.window_end AND x.k = y.k AND x.v = y.v WHERE "
        "coalesce(x.v, y.v) < 50 EMIT ON WINDOW CLOSE"
    ),
    "dedup on close": (
        "SELECT k, v, ts FROM (SELECT *, row_number() OVER (PARTITION BY window_start, "
        "window_end, k ORDER BY ts) AS r FROM TUMBLE(a, ts, INTERVAL '10 seconds')) x WHERE "
        "r = 1 AND v = 7 EMIT ON WINDOW CLOSE"
    ),
    "distinct on close": (
        "SELECT DISTINCT window_start, window_end, k FROM TUMBLE(a, ts, INTERVAL '10 seconds') "
        "WHERE v = 7 EMIT ON WINDOW CLOSE"
    ),
    "union on close": (
        "SELECT window_start, window_end, sum(v) AS s FROM TUMBLE((SELECT k, v, ts FROM a UNION "
        "ALL SELECT k, v, ts FROM b), ts, INTERVAL '10 seconds') GROUP BY 1, 2 EMIT ON WINDOW "
        "CLOSE"
    ),
    "window on window": (
        "SELECT window_start, window_end, sum(s) AS s FROM TUMBLE((SELECT window_start AS ts, "
        "sum(v) AS s FROM TUMBLE(a, ts, INTERVAL '10 seconds') GROUP BY window_start, "
        "window_end), ts, INTERVAL '1 minute') GROUP BY 1, 2 EMIT ON WINDOW CLOSE"
    ),
    "over distinct": (
        "SELECT window_start, window_end, count(*) AS n FROM TUMBLE((SELECT DISTINCT k, ts FROM "
        "a), ts, INTERVAL '10 seconds') GROUP BY 1, 2"
    ),
    "hop over groups": (
        "SELECT window_start, window_end, max(s) AS s FROM HOP((SELECT k, ts, sum(v) AS s FROM a "
        "GROUP BY k, ts), ts, INTERVAL '5 seconds', INTERVAL '10 seconds') GROUP BY 1, 2"
    ),
    "over union": (
        "SELECT window_start, window_end, count(*) AS n FROM TUMBLE((SELECT k, ts FROM a UNION "
        "SELECT k, ts FROM b), ts, INTERVAL '10 seconds') GROUP BY 1, 2 EMIT ON WINDOW CLOSE"
    ),
    "over except": (
        "SELECT window_start, window_end, count(*) AS n FROM TUMBLE((SELECT k, ts FROM a EXCEPT "
        "ALL SELECT k, ts FROM b), ts, INTERVAL '10 seconds') GROUP BY 1, 2"
    ),
    "over intersect": (
        "SELECT window_start, window_end, count(*) AS n FROM CUMULATE((SELECT k, ts FROM a "
        "INTERSECT SELECT k, ts FROM a WHERE v > 500), ts, INTERVAL '5 seconds', INTERVAL '10 "
        "seconds') GROUP BY 1, 2"
    ),
    "over membership": (
        "SELECT window_start, window_end, count(*) AS n FROM TUMBLE((SELECT DISTINCT k, ts FROM a "
        "WHERE k IN (SELECT k FROM b)), ts, INTERVAL '10 seconds') GROUP BY 1, 2"
    ),
    "over distinct groups of a view": (
        "SELECT window_start, window_end, count(*) AS n FROM TUMBLE((SELECT DISTINCT ts, n FROM "
        "grouped), ts, INTERVAL '10 seconds') GROUP BY 1, 2"
    ),
}
VIEWS = {
    "over distinct groups of a view": (
        "CREATE VIEW grouped AS SELECT k, ts, count(*) AS n FROM a GROUP BY k, ts"
    ),
}
"""What a query reads beside the sources."""
READS_B = re.compile(r"\b(FROM|JOIN) b\b|\(b,")


class Gate(threading.Event):
    """Lets a feed hand out as many batches as were let through."""

    def __init__(self) -> None:
        super().__init__()
        self._free = threading.Semaphore(0)
        self.passed = 0

    def let(self, batches: int) -> None:
        self._free.release(batches)

    def wait(self, timeout: float | None = None) -> bool:
        """Whether a batch may go; waits at most that long."""
        found = self._free.acquire(timeout=timeout)
        self.passed += found
        return found


def measure_windows(name: str) -> dict[str, Any]:
    """{state_rows, rss_mb}, each after 200, 600 and 1,000 windows."""
    import streamsql

    register()
    sides = ("a", "b") if READS_B.search(WINDOWED[name]) else ("a",)
    gates = {side: Gate() for side in sides}
    figures: dict[str, Any] = {"state_rows": [], "rss_mb": []}
    with streamsql.connect() as db:
        for number, (side, gate) in enumerate(gates.items()):
            FEEDS[side] = Feed([_window(number, w) for w in range(WINDOWS + 1)])
            FEEDS[side].gate = gate
            db.execute(
                f"CREATE SOURCE {side} (k BIGINT, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - "
                f"INTERVAL '1 second') WITH (connector = 'memory', feed = '{side}')"
            )
        if name in VIEWS:
            db.execute(VIEWS[name])
        db.execute(f"CREATE MATERIALIZED VIEW m AS {WINDOWED[name]}")
        done = 0
        for mark in MARKS:
            while done < mark:  # in small portions, so that no stream runs far ahead of the other
                for gate in gates.values():
                    gate.let(10)
                done += 10
                _settle(db, gates, done)
            gc.collect()
            figures["state_rows"].append(_state_rows(db))
            figures["rss_mb"].append(_rss_mb())
    return figures


def _settle(db: Any, gates: dict[str, Gate], batches: int) -> None:
    """Wait until that many batches of each stream are in the view."""
    pause = threading.Event()
    while any(gate.passed < batches for gate in gates.values()):
        pause.wait(0.001)
    db.execute("FLUSH")


def _window(stream: int, window: int) -> pa.RecordBatch:
    random = np.random.default_rng((stream, window))
    micros = np.sort(random.integers(0, WINDOW_S * 1_000_000, ROWS))
    times = EPOCH_US + window * WINDOW_S * 1_000_000 + micros
    return pa.record_batch({
        "k": random.integers(0, KEYS, ROWS), "v": random.integers(0, 1000, ROWS),
        "ts": pa.array(times, pa.timestamp("us")),
    })  # fmt: skip


def _state_rows(db: Any) -> int:
    from streamsql_server.benchmark.cost import times

    text = db.execute("EXPLAIN (ANALYZE, VERBOSE, FORMAT JSON) MATERIALIZED VIEW m").fetchall()
    return int(sum(times(json.loads(text[0][0]), "state rows").values()))


def _rss_mb() -> float:
    from streamsql_server.benchmark.cost import rss_mb

    return rss_mb()
