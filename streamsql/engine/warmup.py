"""Compile what a usual first session needs, before it needs it."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import streamsql
from streamsql.kernels.jit import cache_dir
from streamsql.kernels.warmup import Exercise, Progress, warmup_beside

ROOMS = (
    "streamsql.kernels.warmup",
    "streamsql.engine.warmup",
    "streamsql.operators.warmup",
    "streamsql.functions.warmup",
    "streamsql.state.warmup",
)
"""Modules with exercises. First what everything needs, last what takes longest and needs little:
two compilers start from the two ends."""

_TABLES = """
CREATE TABLE warm (id INT PRIMARY KEY, k INT, g TEXT, v NUMERIC(8,2), x DOUBLE PRECISION,
  n BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds');
CREATE TABLE side (k INT, name TEXT);
"""

_VIEWS = {
    "aggregates": (
        "SELECT id, k + 1 AS k1, upper(g) AS g, v * 2 AS v FROM warm WHERE n > 1 AND x < 9",
        "SELECT k, count(*) AS c, sum(n) AS s, sum(v) AS sv, avg(x) AS a, "
        "min(n) AS lo, max(g) AS hi FROM warm GROUP BY k",
        "SELECT g, count(*) AS c, avg(n) AS a, count(DISTINCT k) AS d FROM warm GROUP BY g",
    ),
    "windows": (
        "SELECT window_start, k, count(*) AS c, sum(n) AS s "
        "FROM TUMBLE(warm, ts, INTERVAL '1 minute') GROUP BY window_start, k",
        "SELECT window_start, count(*) AS c FROM TUMBLE(warm, ts, INTERVAL '1 minute') "
        "GROUP BY window_start EMIT ON WINDOW CLOSE",
        "SELECT window_start, k, count(*) AS c FROM HOP(warm, ts, INTERVAL '20 seconds', "
        "INTERVAL '1 minute') GROUP BY window_start, k",
    ),
    "joins": (
        "SELECT w.id, s.name FROM warm w JOIN side s ON w.k = s.k",
        "SELECT w.id, s.name FROM warm w LEFT JOIN side s ON w.k = s.k",
        "SELECT DISTINCT k, g FROM warm",
    ),
    "sessions": (
        "SELECT window_start, k, count(*) AS c FROM SESSION(warm PARTITION BY k, ts, "
        "INTERVAL '10 seconds') GROUP BY window_start, window_end, k",
        "SELECT id, n FROM warm ORDER BY n DESC, id LIMIT 2",
    ),
}

_ROWS = (
    "INSERT INTO warm VALUES (1, 1, 'a', 1.5, 2.5, 3, '2024-01-01 00:00:01'), "
    "(2, 1, NULL, NULL, NULL, NULL, NULL), (3, 2, 'b', 2.5, 1.0, 7, '2024-01-01 00:02:09');"
    "INSERT INTO side VALUES (1, 'one'), (1, 'uno'), (3, NULL);"
    "UPDATE warm SET n = 4, g = 'c' WHERE id = 1;"
    "DELETE FROM warm WHERE id = 3;"
    "DELETE FROM side WHERE k = 1;"
    "SELECT * FROM warm"
)


def warm_up(progress: Progress | None = None, rooms: Sequence[str] = ()) -> int:
    """Compile the kernels of common statements; returns how many are compiled then.

    progress(what comes next, kernels compiled so far, kernels known). rooms: modules outside the
    engine with `EXERCISES` of their own. The first time on a machine takes seconds. Where that was
    done before, nothing is: compiled kernels are read from the cache on disk when they are needed,
    in milliseconds each.
    """
    every = (*ROOMS, *rooms)
    done = _marker(every)
    if done is not None and done.exists():
        return 0
    compiled = warmup_beside(every, progress)
    if done is not None:
        done.touch()
    return compiled


def _marker(rooms: Sequence[str]) -> Path | None:
    """The file that says: this version's kernels of these rooms are in the cache beside it."""
    folder = cache_dir()
    name = f"warmed-{streamsql.__version__}-{zlib.crc32(' '.join(rooms).encode()):08x}"
    return None if folder is None else folder / name


def _session(views: Sequence[str]) -> None:
    """A database with these views, through a few changes of its tables."""
    from streamsql.engine.database import Database

    with Database(":memory:") as database:
        database.execute(_TABLES)
        for number, query in enumerate(views):
            database.execute(f"CREATE MATERIALIZED VIEW warm_{number} AS {query}")
        for statement in _ROWS.split(";"):
            database.execute(statement).fetchall()


EXERCISES: tuple[Exercise, ...] = tuple(
    (name, partial(_session, queries)) for name, queries in _VIEWS.items()
)
