"""Operators against DuckDB: rows per second in ticks of 100 000 rows, beside DuckDB's one-shot batch with one
thread over the same rows in memory, in the same run. Seconds are those of the processor, so that other
work on the machine counts for neither.

    python tests/bench/bench_operators.py DIR [--rows 10000000] [--tick 100000] [--only tumble,hop]

DIR holds parquet/bid/*.parquet and parquet/auction/*.parquet of the Nexmark model. Prints one line a query: our time (the
circuit alone, then with a view's store behind it), DuckDB's, and the ratios.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from streamsql.circuit.graph import Circuit
from streamsql.circuit.operator import Step
from streamsql.core.delta import Delta
from streamsql.core.schema import Schema
from streamsql.core.types import BIGINT, TIMESTAMP
from streamsql.operators import Options
from streamsql.plan.nodes import LogicalPlan
from streamsql.runtime.compile import add_source, compile_view
from streamsql.state.arrangement import Arrangement

BID = Schema.of(
    ("auction", BIGINT), ("bidder", BIGINT), ("price", BIGINT), ("date_time", TIMESTAMP)
)
AUCTION = Schema.of(
    ("id", BIGINT), ("seller", BIGINT), ("category", BIGINT), ("reserve", BIGINT),
    ("date_time", TIMESTAMP),
)  # fmt: skip
COLUMNS = {
    "bid": ["auction", "bidder", "price", "dateTime"],
    "auction": ["id", "seller", "category", "reserve", "dateTime"],
}


@dataclass(frozen=True)
class Query:
    """sql: ours, over t0 (bid) and t1 (auction). duck: the batch equivalent. key: unique columns of the result."""

    sql: str
    duck: str
    key: tuple[int, ...] | None
    watermark: bool = False


QUERIES = {
    "q1": Query(
        "SELECT auction, bidder, 0.908 * price AS price, date_time FROM t0",
        "SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(22,3)), date_time FROM bid",
        None,
    ),
    "q2": Query(
        "SELECT auction, price FROM t0 WHERE auction % 123 = 0",
        "SELECT auction, price FROM bid WHERE auction % 123 = 0",
        None,
    ),
    "tumble": Query(
        "SELECT window_start, window_end, auction, count(*), sum(price) FROM "
        "TUMBLE(t0, date_time, INTERVAL '10 seconds') GROUP BY 1, 2, 3",
        "SELECT time_bucket(INTERVAL '10 seconds', date_time) w, auction, count(*), sum(price) "
        "FROM bid GROUP BY 1, 2",
        (0, 2),
    ),
    "hop": Query(
        "SELECT window_start, window_end, auction, count(*) FROM "
        "HOP(t0, date_time, INTERVAL '2 seconds', INTERVAL '10 seconds') GROUP BY 1, 2, 3",
        "SELECT auction, ws, count(*) FROM (SELECT auction, unnest(range(e // 2000 * 2000 - 8000, "
        "e // 2000 * 2000 + 2000, 2000)) AS ws FROM (SELECT auction, epoch_ms(date_time) e FROM "
        "bid)) GROUP BY 1, 2",
        (0, 2),
    ),
    "session": Query(
        "SELECT window_start, window_end, bidder, count(*) FROM "
        "SESSION(t0 PARTITION BY bidder, date_time, INTERVAL '10 seconds') GROUP BY 1, 2, 3",
        "SELECT bidder, min(date_time), max(date_time), count(*) FROM (SELECT *, sum(fresh) OVER "
        "(PARTITION BY bidder ORDER BY date_time ROWS UNBOUNDED PRECEDING) s FROM (SELECT bidder, "
        "date_time, CASE WHEN date_time - lag(date_time) OVER (PARTITION BY bidder ORDER BY "
        "date_time) <= INTERVAL '10 seconds' THEN 0 ELSE 1 END fresh FROM bid)) GROUP BY bidder, s",
        (0, 2),
    ),
    "join": Query(
        "SELECT t0.auction, t0.bidder, t0.price, t1.seller, t1.category FROM t0 JOIN t1 "
        "ON t0.auction = t1.id",
        "SELECT b.auction, b.bidder, b.price, a.seller, a.category FROM bid b JOIN auction a "
        "ON b.auction = a.id",
        None,
    ),
    "group": Query(
        "SELECT auction, count(*), sum(price) FROM t0 GROUP BY auction",
        "SELECT auction, count(*), sum(price) FROM bid GROUP BY auction",
        (0,),
    ),
}


def load(folder: str, name: str, schema: Schema, rows: int | None) -> pa.Table:
    """A table with the schema's Arrow types."""
    table = pq.read_table(f"{folder}/parquet/{name}", columns=COLUMNS[name])
    if rows is not None:
        table = table.slice(0, rows)
    return table.rename_columns(schema.arrow.names).cast(schema.arrow).combine_chunks()


def plan_of(sql: str, append_only: bool = True, watermark: bool = False) -> LogicalPlan:
    """The bound plan of a query over t0 and t1."""
    from streamsql.dialect import parse
    from streamsql.plan.binder import BindContext, RelationInfo, bind_query
    from streamsql.plan.optimizer import optimize

    infos = {
        f"t{i}": RelationInfo(
            relation_id=i,
            name=f"t{i}",
            schema_name="public",
            schema=schema,
            append_only=append_only,
            watermark_column=3 if watermark and i == 0 else None,
        )
        for i, schema in enumerate((BID, AUCTION))
    }
    context = BindContext(lambda name: infos.get(name[-1]))
    return optimize(bind_query(parse(sql)[0].query, context).plan)


def batches(table: pa.Table, size: int) -> list[pa.RecordBatch]:
    """The table in pieces of at most `size` rows."""
    return [b for b in table.to_batches(max_chunksize=size) if b.num_rows]


def run(
    query: Query, tables: Sequence[pa.Table], tick_rows: int, append_only: bool, store: bool
) -> tuple[float, int, Circuit]:
    """(seconds, rows of the view or delta entries, circuit)."""
    plan = plan_of(query.sql, append_only, query.watermark)
    circuit = Circuit()
    schemas = (BID, AUCTION)
    sources = {
        i: add_source(circuit, i, s, append_only=append_only,
                      watermark_column=3 if query.watermark and i == 0 else None)
        for i, s in enumerate(schemas)
    }  # fmt: skip
    view = compile_view(plan, circuit, sources, Options())
    nothing = {sources[i]: Delta.empty(s) for i, s in enumerate(schemas)}
    view.start(Step(0, 0), nothing)
    kept = Arrangement(view.schema, query.key)
    bids = batches(tables[0], tick_rows)
    share = max(1, -(-tables[1].num_rows // len(bids)))
    auctions = batches(tables[1], share)
    seen = 0
    start = time.process_time()
    for i, batch in enumerate(bids):
        deltas = {sources[0]: Delta(batch)}
        if "t1" in query.sql and i < len(auctions):
            deltas[sources[1]] = Delta(auctions[i])
        out = circuit.step(Step(i + 1, 0), deltas).get(view.output)
        if out is not None:
            seen += out.num_rows
            if store:
                kept.apply(out)
    spent = time.process_time() - start
    return spent, kept.live_rows if store else seen, circuit


def batch_seconds(sql: str, tables: Sequence[pa.Table]) -> tuple[float, int]:
    """DuckDB's best of two runs, one thread, tables in its own memory; the result kept as a table."""
    con = duckdb.connect()
    con.execute("SET threads = 1")
    con.execute("SET enable_progress_bar = false")
    for name, table, schema in (("bid", tables[0], BID), ("auction", tables[1], AUCTION)):
        con.register("arrow", table.rename_columns(list(schema.names)))
        con.execute(f"CREATE TABLE {name} AS SELECT * FROM arrow")
        con.unregister("arrow")
    best, rows = 1e9, 0
    for _ in range(2):
        start = time.process_time()
        con.execute(f"CREATE OR REPLACE TABLE out AS {sql}")
        best = min(best, time.process_time() - start)
        rows = con.execute("SELECT count(*) FROM out").fetchone()[0]
    return best, rows


def growth(tick_rows: int) -> None:
    """Seconds a tick for ever more groups: 10 times the groups must cost at most 1.5 times."""
    rng = np.random.default_rng(1)
    query = QUERIES["group"]
    for groups in (10_000, 100_000, 1_000_000):
        ticks = 60
        rows = tick_rows * ticks
        table = pa.table(
            [rng.integers(0, groups, rows), rng.integers(0, 1000, rows),
             rng.integers(1, 10**6, rows), np.zeros(rows, "datetime64[us]")],
            schema=BID.arrow,
        )  # fmt: skip
        auction = pa.table([pa.array([], t) for t in AUCTION.arrow.types], schema=AUCTION.arrow)
        spent, _, _ = run(query, [table, auction], tick_rows, True, True)
        print(f"groups {groups:>9}: {spent / ticks * 1e3:.2f} ms a tick of {tick_rows} rows")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--tick", type=int, default=100_000)
    parser.add_argument("--only", default="")
    parser.add_argument("--metrics", action="store_true")
    parser.add_argument("--retracting", action="store_true", help="tables that may delete")
    args = parser.parse_args()
    tables = [load(args.folder, "bid", BID, args.rows), load(args.folder, "auction", AUCTION, None)]
    tables[1] = tables[1].slice(0, int(tables[1].num_rows * min(1.0, args.rows / 10_028_000)))
    only = args.only.split(",") if args.only else [*QUERIES, "growth"]
    for name in only:
        if name == "growth":
            growth(args.tick)
            continue
        query = QUERIES[name]
        warm = [tables[0].slice(0, 3 * args.tick), tables[1].slice(0, 3000)]
        run(query, warm, args.tick, not args.retracting, True)
        alone, _, _ = run(query, tables, args.tick, not args.retracting, False)
        stored, rows, circuit = run(query, tables, args.tick, not args.retracting, True)
        duck, duck_rows = batch_seconds(query.duck, tables)
        print(
            f"{name:8} circuit {alone:6.2f} s  with store {stored:6.2f} s  DuckDB {duck:6.2f} s  "
            f"ratio {duck / alone:5.2f} / {duck / stored:5.2f}  rows {rows} / {duck_rows}",
            flush=True,
        )
        if args.metrics:
            for node in circuit:
                m = node.metrics
                print(f"    {node.label:32} {m.busy_ns / 1e9:6.2f} s  {m.rows_in} -> {m.rows_out}")


if __name__ == "__main__":
    main()
