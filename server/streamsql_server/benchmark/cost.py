"""Does the cost of a tick follow the size of its change? The same change over states that grow.

For each stateful operator: 1,000 rows come, then go again, while the state holds 10,000 rows,
100,000, 1,000,000 (and 10,000,000 with --huge). The first figure is the processor time of a whole
INSERT, the second that of the engine's thread for a tick of deletes (finding the rows to delete is
another thread's); the best of some ticks, because machines are shared. Ideal: the same in every
column. Where both sides of a join change, a figure is that of both ticks.

Then 1,000 windows go by over sources that keep no rows: state and memory after 200, 600 and 1,000.
"""

from __future__ import annotations

import gc
import json
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from streamsql_server.benchmark.closing import WINDOWED
from streamsql_server.benchmark.cost_cases import Case
from streamsql_server.benchmark.cost_cases_ordered import CASES

SIZES = (10_000, 100_000, 1_000_000)
HUGE = 10_000_000
DELTA = 1_000
TICKS = 9
FILL_ROWS = 250_000
GROWTH_MAX = 2.0
MISSES = (
    "  A row takes the same steps (in trees, two levels more), but what they read is in no cache."
    "\n  Measured there: 0.02 us a read in 1 MB; in 3 GB 0.1 us among others, 0.6 us alone."
)
"""Why a figure grows though the work does not."""
PARTS = ("insert_ms", "delete_ms")
COLUMNS = "id BIGINT PRIMARY KEY, k BIGINT, v BIGINT, ts TIMESTAMP"
WATERMARK = ", WATERMARK FOR ts AS ts - INTERVAL '1 second'"
EPOCH_US = 1_700_000_000_000_000


def run(huge: bool = False, only: tuple[str, ...] = ()) -> dict[str, Any]:
    """Print both tables; returns the figures. only: parts of names of cases."""
    sizes = (*SIZES, HUGE) if huge else SIZES
    cases = [c for c in CASES if not only or any(o in c.name for o in only)]
    print(f"{'milliseconds a tick of 1,000 rows':34}" + "".join(f"{s:>20,}" for s in sizes))
    print(f"{'':34}" + f"{'insert    delete':>20}" * len(sizes) + f"{'growth':>10}")
    found = [_row(case, sizes) for case in cases]
    grown = [f["name"] for f in found if f["growth"] > GROWTH_MAX]
    print(f"more than {GROWTH_MAX:.0f} times: {', '.join(grown) or 'none'}")
    if grown and huge:
        print(MISSES)
    windows = [_windows(name) for name in WINDOWED if not only or any(o in name for o in only)]
    return {"cost": found, "closing": windows}


def _row(case: Case, sizes: tuple[int, ...]) -> dict[str, Any]:
    """All sizes of a case, each in a process of its own; growth: the larger of the two."""
    figures = [_child("cost", case.name, str(size)) for size in sizes]
    growth = max(
        max(f[part] for f in figures) / min(f[part] for f in figures)
        for part in PARTS
        if part in figures[0]
    )
    text = "".join(_shown(f.get(part)) for f in figures for part in PARTS)
    print(f"{case.name:34}{text}{growth:9.2f}x", flush=True)
    return {"name": case.name, "sizes": figures, "growth": growth}


def _shown(milliseconds: float | None) -> str:
    return f"{'':10}" if milliseconds is None else f"{milliseconds:10.2f}"


def _windows(name: str) -> dict[str, Any]:
    figures: dict[str, Any] = _child("closing", name, "")
    rows = ", ".join(f"{n:,}" for n in figures["state_rows"])
    memory = ", ".join(f"{m:.0f}" for m in figures["rss_mb"])
    print(f"1,000 windows, {name:22} state rows {rows}; RSS MB {memory}", flush=True)
    return {"name": name, **figures}


def _child(kind: str, name: str, argument: str) -> Any:
    program = (
        f"from streamsql_server.benchmark import cost; cost.child({kind!r}, {name!r}, {argument!r})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def child(kind: str, name: str, argument: str) -> None:
    """One measurement, printed as JSON."""
    if kind == "cost":
        print(json.dumps(measure(next(c for c in CASES if c.name == name), int(argument))))
    else:
        from streamsql_server.benchmark.closing import measure_windows

        print(json.dumps(measure_windows(name)))


# one case of one size ---------------------------------------------------------------------------
def measure(case: Case, rows: int) -> dict[str, float]:
    """{insert_ms, delete_ms, rss_mb} of a tick of DELTA rows over a state of `rows` rows a side; no
    delete_ms where rows only come."""
    import streamsql

    random = np.random.default_rng(3)
    with streamsql.connect() as db:
        make(db, case)
        for table in ("a", "b") if case.both else ("a",):
            for start in range(0, rows, FILL_ROWS):
                db.insert(table, _rows(random, start, min(FILL_ROWS, rows - start), rows))
        gc.collect()
        gc.freeze()  # the collector's own passes grow with the program, not with the change
        ticks = [rows + tick * DELTA for tick in range(TICKS)]
        given = [_given(case, random, first, rows) for first in ticks]
        found = {"insert_ms": min(_insert_ms(db, changes) for changes in given)}
        if not case.append_only and not case.rising:
            found["delete_ms"] = max(min(_delete_ms(db, case, f) for f in ticks), 1e-3)
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"rows": rows, **found, "rss_mb": rss}


def make(db: Any, case: Case, view: str = "m") -> None:
    """The tables and the view of a case, empty."""
    columns = COLUMNS + WATERMARK if case.rising else COLUMNS
    for table in ("a", "b"):
        db.execute(f"CREATE TABLE {table} ({columns}){' APPEND ONLY' * case.append_only}")
    db.execute(f"CREATE MATERIALIZED VIEW {view} AS {case.sql}")


def _given(case: Case, random: np.random.Generator, first: int, state: int) -> dict[str, pa.Table]:
    """DELTA rows for each table that changes. Made ahead of all ticks: drawing them takes memory in
    proportion to the state, which would push the engine out of the caches before every tick."""
    return {table: _rows(random, first, DELTA, state, case.rising) for table in case.changes}


def _insert_ms(db: Any, given: dict[str, pa.Table]) -> float:
    """Processor time of the insertion of these rows."""
    begin = time.process_time()
    for table, rows in given.items():
        db.insert(table, rows)
    return (time.process_time() - begin) * 1e3


def _delete_ms(db: Any, case: Case, first: int) -> float:
    """The engine's processor time of the deletion of those rows again."""
    ids = ", ".join(map(str, range(first, first + DELTA)))
    before = _engine_ms()
    for table in case.changes:
        db.execute(f"DELETE FROM {table} WHERE id IN ({ids})")
    return _engine_ms() - before


def _rows(
    random: np.random.Generator, first: int, count: int, state: int, rising: bool = False
) -> pa.Table:
    """Rows whose groups lie all over a state of that many rows; those that come have one each."""
    ids = np.arange(first, first + count)
    keys = ids % (state // 10) if first < state else random.permutation(state // 10)[:count]
    seconds = ids if first < state or rising else random.integers(0, state, count)
    return pa.table({
        "id": ids, "k": keys, "v": random.integers(0, 1_000_000, count),
        "ts": pa.array(EPOCH_US + seconds * 1_000_000, pa.timestamp("us")),
    })  # fmt: skip


def _engine_ms() -> float:
    """Processor time of all threads of this process but the caller's."""
    own = threading.get_native_id()
    tasks = Path("/proc/self/task")
    if not tasks.exists():
        return (time.process_time() - time.thread_time()) * 1e3
    return sum(
        int((task / "schedstat").read_text().split()[0]) / 1e6
        for task in tasks.iterdir()
        if int(task.name) != own
    )


def times(node: dict[str, Any], what: str) -> dict[int, float]:
    """A figure of every node of an EXPLAIN in JSON, by its number."""
    found = {int(node["node"]): float(node.get(what, 0))}
    for part in node.get("inputs", ()):
        found.update(times(part, what))
    return found


def rss_mb() -> float:
    """Memory of this process now."""
    status = Path("/proc/self/statm")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return int(status.read_text().split()[1]) * resource.getpagesize() / 2**20
