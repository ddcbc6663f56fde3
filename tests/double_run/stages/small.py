"""Small tables with NULLs, duplicates and ties, for shapes of single operators.

t(id PK, k, g, v, x NUMERIC, d DOUBLE, b BOOLEAN, ts)    u(id PK, k, w, s, ts)
p(n, k, w)  exact duplicates, no key                     e(a, b)  edges with cycles
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from ..harness import Table

START = datetime.datetime(2024, 1, 1)


def holes(random: np.random.Generator, values: Any, share: float = 0.12) -> list[Any]:
    """The values, some of them NULL."""
    gone = random.random(len(values)) < share
    return [None if g else v for v, g in zip(values, gone, strict=True)]


def ints(random: np.random.Generator, low: int, high: int, n: int) -> pa.Array:
    return pa.array(holes(random, random.integers(low, high, n).tolist()), pa.int32())


def texts(random: np.random.Generator, words: tuple[str, ...], n: int) -> pa.Array:
    return pa.array(holes(random, [words[i] for i in random.integers(0, len(words), n)]))


def times(
    random: np.random.Generator, n: int, seconds: int = 600, start: datetime.datetime = START
) -> pa.Array:
    moments = [start + datetime.timedelta(seconds=int(s)) for s in random.integers(-90, seconds, n)]
    return pa.array(holes(random, moments, 0.08), pa.timestamp("us"))


def t(random: np.random.Generator, scale: int) -> pa.Table:
    n = 56 * scale
    x = [Decimal(int(c)) / 100 for c in random.integers(-500, 2000, n)]
    return pa.table({
        "id": pa.array(np.arange(1, n + 1, dtype=np.int32)), "k": ints(random, 0, 6, n),
        "g": texts(random, ("a", "b", "ab", "c", ""), n), "v": ints(random, 0, 12, n),
        "x": pa.array(holes(random, x), pa.decimal128(10, 2)),
        "d": pa.array(holes(random, (random.integers(-40, 40, n) / 8).tolist()), pa.float64()),
        "b": pa.array(holes(random, (random.random(n) < 0.5).tolist()), pa.bool_()),
        "ts": times(random, n),
    })  # fmt: skip


def u(random: np.random.Generator, scale: int) -> pa.Table:
    n = 40 * scale
    return pa.table({
        "id": pa.array(np.arange(1, n + 1, dtype=np.int32)), "k": ints(random, 2, 9, n),
        "w": ints(random, 0, 12, n), "s": texts(random, ("a", "b", "x"), n),
        "ts": times(random, n),
    })  # fmt: skip


def p(random: np.random.Generator, scale: int) -> pa.Table:
    n = 18 * scale
    again = np.repeat(np.arange(n), random.integers(1, 4, n))
    k, w = ints(random, 0, 5, n), ints(random, 0, 8, n)
    return pa.table({
        "n": pa.array(again.astype(np.int32)), "k": k.take(pa.array(again)),
        "w": w.take(pa.array(again)),
    })  # fmt: skip


def e(random: np.random.Generator, scale: int) -> pa.Table:
    n = 14 * scale
    a, b = random.integers(0, 9 * scale, n), random.integers(0, 9 * scale, n)
    return pa.table({"a": pa.array(a.astype(np.int32)), "b": pa.array(b.astype(np.int32))})


TABLES = (
    Table(
        "t",
        "id INT PRIMARY KEY, k INT, g VARCHAR, v INT, x NUMERIC(10,2), d DOUBLE PRECISION, b BOOLEAN, ts TIMESTAMP",
        t, "id", "v",
    ),
    Table("u", "id INT PRIMARY KEY, k INT, w INT, s VARCHAR, ts TIMESTAMP", u, "id", "w"),
    Table("p", "n INT, k INT, w INT", p, "n", "w"),
    Table("e", "a INT, b INT", e, "a"),
)  # fmt: skip
