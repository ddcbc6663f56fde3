"""Ten times more groups: what does a tick of the same size cost?

The size of a change is its rows and the groups they touch; only the state grows.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa

GROUPS = (10_000, 100_000, 1_000_000)
TICKS = 15
TOUCHED = 10_000


def run(tick_rows: int) -> list[dict[str, Any]]:
    """Milliseconds a tick over states of growing size; prints a table and returns its rows."""
    print(f"{'groups held':>12}{'ms a tick':>12}{'to the row above':>18}")
    found: list[dict[str, Any]] = []
    for groups in GROUPS:
        milliseconds = _tick_ms(groups, tick_rows)
        ratio = milliseconds / found[-1]["tick_ms"] if found else None
        found.append({"groups": groups, "tick_ms": milliseconds, "ratio": ratio})
        print(f"{groups:12,}{milliseconds:12.2f}{'' if ratio is None else f'{ratio:18.2f}'}")
    return found


def _tick_ms(groups: int, tick_rows: int) -> float:
    """Median of some ticks that touch keys all over a state of `groups` groups."""
    import streamsql

    random = np.random.default_rng(7)
    with streamsql.connect() as db:
        db.execute("CREATE TABLE t (k BIGINT, v BIGINT) APPEND ONLY")
        db.execute(
            "CREATE MATERIALIZED VIEW r AS SELECT k, count(*) AS n, sum(v) AS s FROM t GROUP BY k"
        )

        def tick(keys: Any) -> float:
            rows = pa.table({"k": keys, "v": random.integers(0, 1000, keys.size)})
            begin = time.perf_counter()
            db.insert("t", rows)
            return time.perf_counter() - begin

        for start in range(0, groups, tick_rows):
            tick(np.arange(start, min(start + tick_rows, groups)))
        spent = [tick(_touching(random, groups, tick_rows)) for _ in range(TICKS)]
    return float(np.median(spent)) * 1e3


def _touching(random: np.random.Generator, groups: int, rows: int) -> Any:
    """Keys of `rows` rows that touch TOUCHED groups, which lie all over the state."""
    chosen = random.choice(groups, TOUCHED, replace=False)
    return chosen[random.integers(0, TOUCHED, rows)]
