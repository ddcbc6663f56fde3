"""`streamsql bench`: throughput as ratios to DuckDB, latency, growth, memory and cost of a change.

Every ratio is taken in one run, on one core: the engine maintains a view while 100,000-row ticks
of Nexmark bids arrive; DuckDB, with one thread, answers the same query once over the same rows,
which it holds in memory, and stores the result. 1.0 = as fast as DuckDB's one-shot batch. Best of
several runs on both sides, because machines are shared and noisy.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from streamsql_server.benchmark import cost, growth, latency, memory, nexmark, throughput

SUITES = ("throughput", "nexmark", "growth", "latency", "memory", "cost")


def run_bench(arguments: list[str] | None = None) -> int:
    """Run the suites that were asked for, print one line a figure; 0 = all results were right."""
    parser = argparse.ArgumentParser(prog="streamsql bench", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="bids (default 10,000,000)")
    parser.add_argument("--events", type=int, default=4_000_000, help="Nexmark events (4,000,000)")
    parser.add_argument("--tick-rows", type=int, default=100_000, help="rows a tick")
    parser.add_argument("--runs", type=int, default=2, help="runs of each side; the best counts")
    parser.add_argument("--only", default="", help=f"suites, of {', '.join(SUITES)}")
    parser.add_argument("--query", default="", help="throughput or Nexmark queries, with commas")
    parser.add_argument("--operator", default="", help="cost: parts of names, with commas")
    parser.add_argument("--huge", action="store_true", help="cost: states of 10,000,000 rows too")
    parser.add_argument("--json", type=Path, help="write the figures there")
    given = parser.parse_args(arguments)
    suites = [s for s in given.only.split(",") if s] or list(SUITES)
    unknown = set(suites) - set(SUITES)
    if unknown:
        parser.error(f"no such suite: {', '.join(sorted(unknown))}")
    figures: dict[str, object] = {}
    right = True
    only = tuple(q for q in given.query.split(",") if q)
    if "throughput" in suites:
        found = throughput.run(given.rows, given.tick_rows, given.runs, only)
        figures["throughput"] = found
        right = all(row["right"] for row in found)
    if "nexmark" in suites:
        views = nexmark.run(given.events, given.tick_rows, given.runs, only)
        figures["nexmark"] = views
        right = right and views["right"]
    if "growth" in suites:
        figures["growth"] = growth.run(given.tick_rows)
    if "latency" in suites:
        figures["latency"] = latency.run()
    if "memory" in suites:
        figures["memory"] = memory.run()
    if "cost" in suites:
        figures["cost"] = cost.run(given.huge, tuple(o for o in given.operator.split(",") if o))
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    if not right:
        print("some results differ from DuckDB's", file=sys.stderr)
    return 0 if right else 1
