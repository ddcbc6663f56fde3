"""OVER under updates: milliseconds of the processor a tick of 1,000 changed rows (500 go, 500 come, anywhere in
their partitions), over ever larger state. Bounded frames must cost about the same whatever is stored.

    python tests/bench/bench_over.py [--rows 10000,100000,1000000] [--parts 1000] [--profile]
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time

import numpy as np
import pyarrow as pa

from streamsql.circuit.graph import Circuit
from streamsql.circuit.operator import Step
from streamsql.core.delta import Delta, make_batch
from streamsql.core.schema import Schema
from streamsql.core.types import BIGINT
from streamsql.runtime.compile import add_source, compile_view
from tests.operators.harness import Table, plan_of

SCHEMA = Schema.of(("id", BIGINT), ("k", BIGINT), ("v", BIGINT))
CALLS = (
    "lag(v) OVER (PARTITION BY k ORDER BY id)",
    "sum(v) OVER (PARTITION BY k ORDER BY id ROWS BETWEEN 10 PRECEDING AND CURRENT ROW)",
    "max(v) OVER (PARTITION BY k ORDER BY id RANGE BETWEEN 10000 PRECEDING AND CURRENT ROW)",
    "sum(v) OVER (PARTITION BY k ORDER BY id)",
)
CHANGES, TICKS, LOAD = 1_000, 30, 100_000


def batch(ids: np.ndarray, keys: np.ndarray) -> pa.RecordBatch:
    """Rows whose v follows from their id."""
    return make_batch([pa.array(ids), pa.array(keys), pa.array(ids % 97)], SCHEMA.arrow, ids.size)


def measure(call: str, rows: int, parts: int, profile: cProfile.Profile | None) -> str:
    """One line of results."""
    rng = np.random.default_rng(1)
    table = Table(SCHEMA)
    circuit = Circuit()
    source = add_source(circuit, 0, SCHEMA)
    plan = plan_of(f"SELECT id, k, v, {call} AS y FROM t0", [table])
    compile_view(plan, circuit, {0: source}).start(Step(1, 0), {source: Delta.empty(SCHEMA)})
    ids = rng.permutation(np.arange(rows) * 1000 + rng.integers(0, 999, rows))
    keys = rng.integers(0, parts, rows)
    start = time.process_time()
    for at in range(0, rows, LOAD):
        part = slice(at, at + LOAD)
        circuit.step(Step(2, 0), {source: Delta(batch(ids[part], keys[part]))})
    loaded = time.process_time() - start
    spent = []
    for tick in range(TICKS):
        chosen = rng.choice(rows, CHANGES // 2, replace=False)
        new = rng.integers(0, rows * 1000, chosen.size)
        both = pa.concat_batches([batch(ids[chosen], keys[chosen]), batch(new, keys[chosen])])
        ids[chosen] = new
        delta = Delta(both, np.repeat([-1, 1], chosen.size))
        if profile is not None:
            profile.enable()
        start = time.process_time()
        circuit.step(Step(3 + tick, 0), {source: delta})
        spent.append(time.process_time() - start)
        if profile is not None:
            profile.disable()
    size = sum(node.operator.state_bytes() for node in circuit) / rows
    return f"{rows:>9} rows: {np.median(spent) * 1e3:7.2f} ms a tick, loaded in {loaded:6.2f} s, {size:.0f} bytes a row"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", default="10000,100000,1000000")
    parser.add_argument("--parts", type=int, default=1_000)
    parser.add_argument("--only", type=int, default=-1)
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    for call in CALLS if args.only < 0 else CALLS[args.only : args.only + 1]:
        print(call)
        for rows in map(int, args.rows.split(",")):
            profile = cProfile.Profile() if args.profile else None
            print(" ", measure(call, rows, args.parts, profile), flush=True)
            if profile is not None:
                pstats.Stats(profile).sort_stats("tottime").print_stats(12)


if __name__ == "__main__":
    main()
