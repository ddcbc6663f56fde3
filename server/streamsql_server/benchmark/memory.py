"""How much memory state takes: each figure is the peak RSS of a process of its own."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

ROWS = 10_000_000
TICK_ROWS = 100_000

_FOLD = f"""
import numpy as np, pyarrow as pa
from streamsql_server.benchmark import memory
memory.fold({ROWS}, 1_000_000, {TICK_ROWS})
"""
_TABLE = f"""
from streamsql_server.benchmark import memory
memory.table({ROWS}, {TICK_ROWS})
"""


def run() -> dict[str, Any]:
    """Megabytes; prints and returns them."""
    figures = {
        "fold_10m_rows_into_1m_groups_mb": _peak_mb(_FOLD),
        "table_10m_rows_3_ints_mb": _peak_mb(_TABLE),
    }
    for name, megabytes in figures.items():
        print(f"{name}: {megabytes:.0f} MB peak RSS")
    return figures


def _peak_mb(program: str) -> float:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return float(done.stdout.split()[-1])


def _print_peak() -> None:
    """Peak RSS since this program began; ru_maxrss would know that of its parent too."""
    status = Path("/proc/self/status")
    if status.exists():
        print(int(status.read_text().partition("VmHWM:")[2].split()[0]) / 1024)
    else:
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def fold(rows: int, groups: int, tick_rows: int) -> None:
    """Fold a stream into groups; prints the peak RSS of this process, MB."""
    import streamsql

    with streamsql.connect() as db:
        db.execute(
            "CREATE SOURCE t (k BIGINT, v BIGINT) WITH (connector = 'datagen', "
            f"'fields.k.kind' = 'random', 'fields.k.min' = '0', 'fields.k.max' = '{groups - 1}', "
            "'fields.v.kind' = 'random', 'fields.v.min' = '0', 'fields.v.max' = '1000', "
            f"'number-of-rows' = '{rows}', 'rows-per-second' = '1000000000')"
        )
        db.execute(
            "CREATE MATERIALIZED VIEW r AS SELECT k, count(*) AS n, sum(v) AS s FROM t GROUP BY k"
        )
        db.execute("FLUSH")
        assert db.execute("SELECT sum(n) FROM r").fetchall()[0][0] == rows
        _print_peak()


def table(rows: int, tick_rows: int) -> None:
    """Fill a table of three int columns; prints the peak RSS of this process, MB."""
    import numpy as np
    import pyarrow as pa

    import streamsql

    with streamsql.connect() as db:
        db.execute("CREATE TABLE t (a INT, b INT, c INT)")
        for start in range(0, rows, tick_rows):
            values = pa.array(np.arange(start, start + tick_rows, dtype=np.int32))
            db.insert("t", pa.table({"a": values, "b": values, "c": values}))
        assert db.execute("SELECT count(*) FROM t").fetchall()[0][0] == rows
        _print_peak()
