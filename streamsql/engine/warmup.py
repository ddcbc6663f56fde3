"""Compile what a usual first session needs, before it needs it."""

from __future__ import annotations

from pathlib import Path

import streamsql
from streamsql.kernels.jit import cache_dir
from streamsql.kernels.warmup import EXERCISES as KERNEL_EXERCISES
from streamsql.kernels.warmup import Exercise, Progress, warmup
from streamsql.operators.warmup import EXERCISES as OPERATOR_EXERCISES
from streamsql.state.warmup import EXERCISES as STATE_EXERCISES

_TABLES = """
CREATE TABLE warm (id INT PRIMARY KEY, k INT, g TEXT, v NUMERIC(8,2), x DOUBLE PRECISION,
  n BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds');
CREATE TABLE side (k INT, name TEXT);
"""

_VIEWS = (
    (
        "filters",
        "SELECT id, k + 1 AS k1, upper(g) AS g, v * 2 AS v FROM warm WHERE n > 1 AND x < 9",
    ),
    (
        "aggregates",
        "SELECT k, count(*) AS c, sum(n) AS s, sum(v) AS sv, avg(x) AS a, "
        "min(n) AS lo, max(g) AS hi FROM warm GROUP BY k",
    ),
    (
        "text keys",
        "SELECT g, count(*) AS c, avg(n) AS a, count(DISTINCT k) AS d FROM warm GROUP BY g",
    ),
    (
        "tumbling windows",
        "SELECT window_start, k, count(*) AS c, sum(n) AS s "
        "FROM TUMBLE(warm, ts, INTERVAL '1 minute') GROUP BY window_start, k",
    ),
    (
        "closing windows",
        "SELECT window_start, count(*) AS c FROM TUMBLE(warm, ts, INTERVAL '1 minute') "
        "GROUP BY window_start EMIT ON WINDOW CLOSE",
    ),
    (
        "hopping windows",
        "SELECT window_start, k, count(*) AS c FROM HOP(warm, ts, INTERVAL '20 seconds', "
        "INTERVAL '1 minute') GROUP BY window_start, k",
    ),
    (
        "sessions",
        "SELECT window_start, k, count(*) AS c FROM SESSION(warm PARTITION BY k, ts, "
        "INTERVAL '10 seconds') GROUP BY window_start, window_end, k",
    ),
    ("joins", "SELECT w.id, s.name FROM warm w JOIN side s ON w.k = s.k"),
    ("outer joins", "SELECT w.id, s.name FROM warm w LEFT JOIN side s ON w.k = s.k"),
    ("distinct rows", "SELECT DISTINCT k, g FROM warm"),
    ("the best of each", "SELECT id, n FROM warm ORDER BY n DESC, id LIMIT 2"),
)

_ROWS = (
    "INSERT INTO warm VALUES (1, 1, 'a', 1.5, 2.5, 3, '2024-01-01 00:00:01'), "
    "(2, 1, NULL, NULL, NULL, NULL, NULL), (3, 2, 'b', 2.5, 1.0, 7, '2024-01-01 00:02:09');"
    "INSERT INTO side VALUES (1, 'one'), (1, 'uno'), (3, NULL);"
    "UPDATE warm SET n = 4, g = 'c' WHERE id = 1;"
    "DELETE FROM warm WHERE id = 3;"
    "DELETE FROM side WHERE k = 1;"
    "SELECT * FROM warm"
)


def warm_up(progress: Progress | None = None) -> int:
    """Compile the kernels of common statements; returns how many are compiled then.

    progress(what comes next, kernels compiled so far, kernels known). The first time on a machine
    takes seconds. Where that was done before, nothing is: compiled kernels are read from the cache
    on disk when they are needed, in milliseconds each.
    """
    from streamsql.engine.database import Database

    done = _marker()
    if done is not None and done.exists():
        return 0
    with Database(":memory:") as database:
        database.execute(_TABLES)

        def view(number: int, query: str) -> None:
            database.execute(f"CREATE MATERIALIZED VIEW warm_{number} AS {query}")

        exercises: list[Exercise] = [
            *KERNEL_EXERCISES,
            *STATE_EXERCISES,
            *OPERATOR_EXERCISES,
        ]
        for number, (name, query) in enumerate(_VIEWS):
            exercises.append((name, lambda n=number, q=query: view(n, q)))  # type: ignore[misc]
        for statement in _ROWS.split(";"):
            exercises.append(("changes", lambda s=statement: _run(database, s)))  # type: ignore[misc]
        compiled = warmup(exercises, progress)
    if done is not None:
        done.touch()
    return compiled


def _marker() -> Path | None:
    """The file that says: this version's kernels are in the cache beside it."""
    folder = cache_dir()
    return None if folder is None else folder / f"warmed-{streamsql.__version__}"


def _run(database: object, statement: str) -> None:
    database.execute(statement).fetchall()  # type: ignore[attr-defined]
