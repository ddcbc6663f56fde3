"""Nexmark q0 … q22 as materialized views against DuckDB's one-shot batch over the same rows.

The views are those of `sql-examples/nexmark`, over the same sources with the same watermarks, which
here hand out events that are in memory already: each tick holds the persons, auctions and bids of
one stretch of events.
"""

from __future__ import annotations

import math
import re
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from streamsql_server.benchmark import feed
from streamsql_server.benchmark.nexmark_queries import QUERIES, Query

EPOCH = 50
SHARES = {"person": 1, "auction": 3, "bid": 46}
"""Rows of each table among 50 events."""
GOAL_MEAN, GOAL_LEAST = 0.5, 0.15

Data = dict[str, list[pa.RecordBatch]]


class MissingExamples(Exception):
    """The folder `sql-examples` is not there."""


def run(events: int, tick_rows: int, runs: int, only: tuple[str, ...] = ()) -> dict[str, Any]:
    """Each query on both sides; prints a table and returns its rows and the geometric mean.

    Raises: MissingExamples.
    """
    folder = examples()
    feed.one_core()
    feed.register()
    stretch = max(EPOCH, tick_rows // EPOCH * EPOCH)
    events = events // EPOCH * EPOCH
    data = {
        name: feed.nexmark(name, events * share // EPOCH, stretch * share // EPOCH)
        for name, share in SHARES.items()
    }
    chosen = [q for q in QUERIES if not only or q.name in only]
    if not chosen:
        return {"views": [], "right": True}
    small = {name: batches[:2] for name, batches in data.items()}
    for query in chosen:  # compile kernels outside of the measurement
        ours(query, small, folder)
    print(f"Nexmark, {events:,} events, ticks of {stretch:,} events, one core, best of {runs}")
    print(f"{'view':8}{'plan':>22}{'ours, M rows/s':>16}{'DuckDB, M rows/s':>18}{'ratio':>8}")
    found = [_compare(query, data, folder, runs) for query in chosen]
    mean = math.exp(sum(math.log(row["ratio"]) for row in found) / len(found))
    least = min(row["ratio"] for row in found)
    print(
        f"geometric mean {mean:.2f} (goal {GOAL_MEAN}), least {least:.2f} (goal {GOAL_LEAST})",
        flush=True,
    )
    return {"views": found, "geometric_mean": mean, "right": all(row["right"] for row in found)}


def examples() -> Path:
    """The folder with the views. Raises: MissingExamples."""
    from streamsql_server.demo import find_examples

    folder = find_examples()
    if folder is None:
        raise MissingExamples("the folder sql-examples was not found")
    return folder / "nexmark"


def _compare(query: Query, data: Data, folder: Path, runs: int) -> dict[str, Any]:
    mine, theirs = [], []
    right = True
    for i in range(runs):
        seconds, answer, plan = ours(query, data, folder)
        mine.append(seconds)
        seconds, agrees = _duckdb(query, data, answer if i == 0 else None)
        theirs.append(seconds)
        right = right and agrees
        del answer
    rows = sum(b.num_rows for name in query.reads for b in data[name])
    figures = {
        "view": query.name,
        "plan": plan,
        "ours_rows_per_s": rows / min(mine),
        "duckdb_rows_per_s": rows / min(theirs),
        "ratio": min(theirs) / min(mine),
        "right": right,
    }
    print(
        f"{query.name:8}{plan:>22}{rows / min(mine) / 1e6:16.2f}{rows / min(theirs) / 1e6:18.2f}"
        f"{figures['ratio']:8.2f}{'' if right else '  WRONG'}",
        flush=True,
    )
    return figures


def ours(query: Query, data: Data, folder: Path) -> tuple[float, pa.Table, str]:
    """(seconds until every row was in the view, its rows, how it is maintained)."""
    import streamsql

    for name in query.reads:
        feed.FEEDS[name] = feed.Feed(data[name])
    db = streamsql.connect()
    try:
        for statement in schema(folder, query.reads):
            db.execute(statement)
        view = (folder / f"{query.name}.sql").read_text("utf-8")
        plan = maintenance(db, view)
        db.execute(view)
        start = time.perf_counter()
        for name in query.reads:
            feed.FEEDS[name].gate.set()
        db.execute("FLUSH")
        seconds = time.perf_counter() - start
        return seconds, db.execute(f"SELECT * FROM {query.name}").arrow(), plan
    finally:
        db.close()


def schema(folder: Path, reads: tuple[str, ...]) -> list[str]:
    """The statements of `schema.sql`, the streams `reads` fed from memory, the others left out."""
    text = re.sub(r"--[^\n]*", "", (folder / "schema.sql").read_text("utf-8"))
    statements = []
    for statement in filter(None, map(str.strip, text.split(";"))):
        source = re.match(r"CREATE SOURCE (\w+)", statement)
        if source is None:
            statements.append(statement)
        elif source[1] in reads:
            fed = f"WITH (connector = 'memory', feed = '{source[1]}')"
            statements.append(re.sub(r"WITH \(connector = 'nexmark'[^)]*\)", fed, statement))
    return statements


def maintenance(db: Any, view: str) -> str:
    """The costliest way in which an operator of the view is maintained, as EXPLAIN says."""
    lines = [str(row[0]) for row in db.execute(f"EXPLAIN {view}").fetchall()]
    return next(line.split(": ")[1] for line in lines if line.startswith("Maintenance: "))


def _duckdb(query: Query, data: Data, answer: pa.Table | None) -> tuple[float, bool]:
    """(seconds for the whole answer, whether ours is the same)."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    for name in query.reads:
        table = pa.Table.from_batches(data[name])
        connection.register("given", table.rename_columns([c for c, _ in feed.columns_of(name)]))
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
        connection.unregister("given")
    side_input = "SELECT i AS key, CAST(i AS VARCHAR) AS value FROM range(10000) r(i)"
    connection.execute(f"CREATE TABLE side_input AS {side_input}")
    start = time.perf_counter()
    connection.execute(f"CREATE TABLE r AS {query.sql}")
    seconds = time.perf_counter() - start
    agrees = answer is None or same(connection, query, answer)
    connection.close()
    return seconds, agrees


def same(connection: Any, query: Query, answer: pa.Table) -> bool:
    """Whether both results are the same bag of rows: by the number and the sum of their hashes."""
    connection.register("ours", answer)
    columns = connection.execute("DESCRIBE r").fetchall()
    chosen = [(name, type_) for name, type_, *_ in columns
              if not query.determined or name in query.determined]  # fmt: skip
    row = ", ".join(f'CAST("{name}" AS {type_})' for name, type_ in chosen)
    sums = f"SELECT count(*), sum(CAST(hash({row}) AS HUGEINT))"
    found = [connection.execute(f"{sums} FROM {t}").fetchone() for t in ("r", "ours")]
    return bool(found[0] == found[1])
