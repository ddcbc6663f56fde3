"""From a single-row INSERT over the wire to visible in ten views, and SELECT 1."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

WRITES = 400
SELECTS = 1000


def run() -> dict[str, Any]:
    """Percentiles in milliseconds; prints and returns them. The server is a process of its own with
    a durable database on disk."""
    import psycopg

    with (
        tempfile.TemporaryDirectory() as folder,
        _server(folder) as port,
        psycopg.connect(
            host="127.0.0.1", port=port, dbname="streamsql", autocommit=True
        ) as connection,
    ):
        writes = _writes(connection)
        reads = _times(lambda _: connection.execute("SELECT 1").fetchone(), SELECTS)
    figures = {
        "insert_p50_ms": writes[len(writes) // 2],
        "insert_p99_ms": writes[int(len(writes) * 0.99)],
        "select_1_p50_ms": reads[len(reads) // 2],
    }
    print(
        f"INSERT to visible in 10 views: p50 {figures['insert_p50_ms']:.2f} ms, "
        f"p99 {figures['insert_p99_ms']:.2f} ms; SELECT 1: p50 {figures['select_1_p50_ms']:.2f} ms"
    )
    return figures


@contextmanager
def _server(folder: str) -> Iterator[int]:
    """A server on a free port; gives the port, and ends the process afterwards."""
    command = [sys.executable, "-m", "streamsql", "serve", "--port", "0", "--data-dir", folder]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        # while it opens, or compiles kernels, it tells how far it is
        found = (re.search(r":(\d+) ", line) for line in process.stdout)
        yield int(next(match[1] for match in found if match is not None))
    finally:
        process.terminate()
        process.wait()


def _writes(connection: Any) -> list[float]:
    connection.execute("CREATE TABLE t (id INT PRIMARY KEY, k INT, v INT, ts TIMESTAMP)")
    for i in range(10):
        view = (
            f"SELECT k, count(*) AS n, sum(v + {i}) AS s FROM t WHERE v >= {i} GROUP BY k"
            if i % 2
            else f"SELECT window_start, max(v) AS m FROM TUMBLE(t, ts, INTERVAL '{i + 1} minutes') "
            "GROUP BY window_start"
        )
        connection.execute(f"CREATE MATERIALIZED VIEW v{i} AS {view}")

    def write(i: int) -> None:
        connection.execute(
            "INSERT INTO t VALUES (%s, %s, %s, TIMESTAMP '2024-01-01')", (i, i % 7, i)
        )

    for i in range(20):
        write(-1 - i)
    return _times(write, WRITES)


def _times(call: Any, count: int) -> list[float]:
    """Sorted milliseconds of `count` calls."""
    spent = []
    for i in range(count):
        start = time.perf_counter()
        call(i)
        spent.append((time.perf_counter() - start) * 1e3)
    return sorted(spent)
