"""Views over Nexmark bids against DuckDB's one-shot batch over the same rows."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from streamsql_server.benchmark import feed

BIDS_PER_AUCTION_EVENT = 46 / 3


@dataclass(frozen=True)
class Query:
    """sql: of the view. duckdb: the same question in DuckDB's words. reads: tables. check: one-row
    summary of the result `r`, equal on both sides. wanted: the ratio we hold ourselves to."""

    name: str
    sql: str
    duckdb: str
    check: str
    wanted: float
    reads: tuple[str, ...] = ("bid",)


_HOPS = """SELECT ws, auction, count(*) AS n FROM (
  SELECT auction, unnest(range(e // 2000 * 2000 - 8000, e // 2000 * 2000 + 2000, 2000)) AS ws
  FROM (SELECT auction, epoch_ms(date_time) AS e FROM bid)) GROUP BY ALL"""
_SESSIONS = """SELECT bidder, count(*) AS n, min(date_time) AS s FROM (
  SELECT bidder, date_time, sum(brk) OVER (PARTITION BY bidder ORDER BY date_time, rn) AS sid FROM (
    SELECT bidder, date_time, row_number() OVER w AS rn, CASE WHEN date_time - lag(date_time)
      OVER w > INTERVAL 10 SECOND THEN 1 ELSE 0 END AS brk
    FROM bid WINDOW w AS (PARTITION BY bidder ORDER BY date_time))) GROUP BY bidder, sid"""

QUERIES: tuple[Query, ...] = (
    Query(
        "project (q1)",
        "SELECT auction, bidder, 0.908 * price AS price, date_time, extra FROM bid",
        "SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23,3)) AS price, date_time, extra "
        "FROM bid",
        "SELECT count(*), sum(price), sum(auction) FROM r",
        0.5,
    ),
    Query(
        "filter (q2)",
        "SELECT auction, price FROM bid WHERE mod(auction, 123) = 0",
        "SELECT auction, price FROM bid WHERE mod(auction, 123) = 0",
        "SELECT count(*), sum(price), sum(auction) FROM r",
        0.5,
    ),
    Query(
        "tumble count, sum by key",
        "SELECT window_start AS w, auction, count(*) AS n, sum(price) AS s "
        "FROM TUMBLE(bid, date_time, INTERVAL '10 seconds') GROUP BY window_start, auction",
        "SELECT time_bucket(INTERVAL 10 SECOND, date_time) AS w, auction, count(*) AS n, "
        "sum(price) AS s FROM bid GROUP BY ALL",
        "SELECT count(*), sum(n), sum(s), max(n) FROM r",
        0.5,
    ),
    Query(
        "hop count (q5 inner)",
        "SELECT window_start AS ws, auction, count(*) AS n FROM HOP(bid, date_time, "
        "INTERVAL '2 seconds', INTERVAL '10 seconds') GROUP BY window_start, auction",
        _HOPS,
        "SELECT count(*), sum(n), max(n) FROM r",
        0.5,
    ),
    Query(
        "session count (q11)",
        "SELECT bidder, window_start AS s, count(*) AS n FROM SESSION(bid PARTITION BY bidder, "
        "date_time, INTERVAL '10 seconds') GROUP BY bidder, window_start, window_end",
        _SESSIONS,
        "SELECT count(*), sum(n), max(n) FROM r",
        1.0,
    ),
    Query(
        "join bid, auction",
        "SELECT b.auction, b.bidder, b.price, a.category, a.seller FROM bid b "
        "JOIN auction a ON b.auction = a.id",
        "SELECT b.auction, b.bidder, b.price, a.category, a.seller FROM bid b "
        "JOIN auction a ON b.auction = a.id",
        "SELECT count(*), sum(price), sum(category) FROM r",
        0.3,
        ("auction", "bid"),
    ),
)


def run(rows: int, tick_rows: int, runs: int, only: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Each query on both sides; prints a table and returns its rows."""
    feed.one_core()
    feed.register()
    auctions = max(1, round(rows / BIDS_PER_AUCTION_EVENT))
    ticks = -(-rows // tick_rows)
    data = {
        "bid": feed.nexmark("bid", rows, tick_rows),
        "auction": feed.nexmark("auction", auctions, max(1, -(-auctions // ticks))),
    }
    chosen = [q for q in QUERIES if not only or any(q.name.startswith(o) for o in only)]
    small = {name: batches[:2] for name, batches in data.items()}
    for query in chosen:  # compile kernels outside of the measurement
        _ours(query, small)
    print(f"{rows:,} bids, ticks of {tick_rows:,} rows, one core, best of {runs}")
    print(f"{'view':28}{'ours, M rows/s':>16}{'DuckDB, M rows/s':>18}{'ratio':>8}{'goal':>7}")
    return [_compare(query, data, runs) for query in chosen]


def _compare(query: Query, data: dict[str, list[pa.RecordBatch]], runs: int) -> dict[str, Any]:
    ours, theirs = [], []
    for _ in range(runs):
        seconds, answer = _ours(query, data)
        ours.append(seconds)
        seconds, wanted = _duckdb(query, data)
        theirs.append(seconds)
    rows = sum(b.num_rows for name in query.reads for b in data[name])
    right = [float(v) for v in answer] == [float(v) for v in wanted]
    figures = {
        "view": query.name,
        "ours_rows_per_s": rows / min(ours),
        "duckdb_rows_per_s": rows / min(theirs),
        "ratio": min(theirs) / min(ours),
        "wanted": query.wanted,
        "right": right,
    }
    print(
        f"{query.name:28}{rows / min(ours) / 1e6:16.2f}{rows / min(theirs) / 1e6:18.2f}"
        f"{figures['ratio']:8.2f}{query.wanted:7.1f}{'' if right else '  WRONG'}",
        flush=True,
    )
    return figures


def _ours(query: Query, data: dict[str, list[pa.RecordBatch]]) -> tuple[float, tuple[Any, ...]]:
    """(seconds until every row was in the view, its summary)."""
    import streamsql

    for name in query.reads:
        feed.FEEDS[name] = feed.Feed(data[name])
    db = streamsql.connect()
    try:
        for name in query.reads:
            db.execute(feed.create_source(name, name))
        db.execute(f"CREATE MATERIALIZED VIEW r AS {query.sql}")
        start = time.perf_counter()
        for name in query.reads:
            feed.FEEDS[name].gate.set()
        db.execute("FLUSH")
        seconds = time.perf_counter() - start
        return seconds, db.execute(query.check).fetchall()[0]
    finally:
        db.close()


def _duckdb(query: Query, data: dict[str, list[pa.RecordBatch]]) -> tuple[float, tuple[Any, ...]]:
    """(seconds for the whole answer, its summary)."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    for name in query.reads:
        table = pa.Table.from_batches(data[name])
        names = [c for c, _ in feed.columns_of(name)]
        connection.register("given", table.rename_columns(names))
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
        connection.unregister("given")
    start = time.perf_counter()
    connection.execute(f"CREATE TABLE r AS {query.duckdb}")
    seconds = time.perf_counter() - start
    answer = connection.execute(query.check).fetchall()[0]
    connection.close()
    return seconds, answer
