"""What every comparison with DuckDB shares: shapes, windows in DuckDB's words, equality of answers.

The oracle shares no code with the engine: where the dialects differ, the second text of a shape is
DuckDB SQL written by hand.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import duckdb

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Shape:
    """name; sql of the view; oracle: DuckDB text, None = the same; emit: what follows the query."""

    name: str
    sql: str
    oracle: str | None = None
    emit: str = ""

    @property
    def duckdb(self) -> str:
        return self.oracle or self.sql


def postgres_like() -> duckdb.DuckDBPyConnection:
    """A DuckDB that orders NULLs and divides integers as PostgreSQL does, at UTC, one thread."""
    oracle = duckdb.connect()
    oracle.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'")
    oracle.execute("SET integer_division = true")
    oracle.execute("SET TimeZone = 'UTC'")
    oracle.execute("SET threads = 1")
    return oracle


def norm(value: Any) -> Any:
    """One form for both engines: numbers to 9 significant digits, the rest as it is."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float | decimal.Decimal):
        number = float(value)
        return "nan" if math.isnan(number) else float(f"{number:.9g}") + 0.0
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    if isinstance(value, list):
        return tuple(norm(v) for v in value)
    if isinstance(value, dict):
        return tuple((k, norm(v)) for k, v in value.items())
    return value


def bag(rows: Iterable[Row]) -> Counter[Row]:
    return Counter(tuple(norm(v) for v in row) for row in rows)


def difference(seen: Iterable[Row], wanted: Iterable[Row]) -> str:
    """What one bag has and the other lacks, in words; "" if they are equal.

    Numbers that are equal but for the last of nine digits are equal: sums of floats depend on
    their order.
    """
    extra, missing = bag(seen), bag(wanted)
    extra, missing = extra - missing, missing - extra
    if not extra and not missing:
        return ""
    left = sorted(missing.elements(), key=repr)
    for row in sorted(extra.elements(), key=repr):
        match = next((i for i, other in enumerate(left) if _close(row, other)), None)
        if match is None:
            return f"extra {_some(extra)}, missing {_some(missing)}"
        del left[match]
    return f"missing {left[:5]}" if left else ""


def _some(rows: Counter[Row]) -> str:
    head = dict(list(rows.items())[:5])
    return f"{head}{' …' if len(rows) > 5 else ''}"


def _close(one: Any, other: Any) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_close, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-7, abs_tol=1e-9)
    return bool(one == other)


# Windows of a table in DuckDB's words -------------------------------------------------------------
def tumble(seconds: int, table: str = "t", time: str = "ts") -> str:
    bucket = f"time_bucket(INTERVAL '{seconds} seconds', {time}, TIMESTAMP '1970-01-01')"
    return (
        f"(SELECT *, {bucket} AS window_start, {bucket} + INTERVAL '{seconds} seconds' "
        f"AS window_end FROM {table} WHERE {time} IS NOT NULL)"
    )


def hop(slide: int, size: int, table: str = "t", time: str = "ts") -> str:
    slide, size = slide * 1_000_000, size * 1_000_000
    return (
        f"(SELECT * FROM (SELECT w.*, make_timestamp(s) AS window_start, "
        f"make_timestamp(s + {size}) AS window_end FROM {table} w, "
        f"LATERAL (SELECT unnest(range(floor(epoch_us({time}) / {slide})::BIGINT * {slide} "
        f"- ({size} + {slide} - 1) // {slide} * {slide} + {slide}, "
        f"floor(epoch_us({time}) / {slide})::BIGINT * {slide} + 1, {slide})) AS s) "
        f"WHERE {time} IS NOT NULL) WHERE {time} < window_end)"
    )


def session(gap: int, key: str = "k", table: str = "t", time: str = "ts", order: str = "id") -> str:
    wait = f"INTERVAL '{gap} seconds'"
    by = f"PARTITION BY {key} " if key else ""
    part = f"PARTITION BY {key}, sid" if key else "PARTITION BY sid"
    return f"""
  (SELECT *, min({time}) OVER ({part}) AS window_start, max({time}) OVER ({part}) + {wait} AS window_end
   FROM (SELECT *, sum(brk) OVER ({by}ORDER BY {time}, {order}) AS sid
         FROM (SELECT *, CASE WHEN {time} - lag({time}) OVER ({by}ORDER BY {time}, {order})
                                   <= {wait} THEN 0 ELSE 1 END AS brk
               FROM {table} WHERE {time} IS NOT NULL)))"""


SESSIONS = session(20)
