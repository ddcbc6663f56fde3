"""A tick of one row and a tick of many take different ways through an aggregate to the same rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import streamsql
from streamsql.core.schema import Schema
from streamsql.core.types import BIGINT, TEXT
from streamsql.functions.expressions import AggregateCall, column
from streamsql.kernels.hashing import hash_arrays
from streamsql.operators.accumulators.extremes import OrderedExtreme
from streamsql.operators.groups import Groups

WORDS = [
    pa.array([1, -2, 2**15 - 1], pa.int16()), pa.array([1, -2, 2**31 - 1], pa.int32()),
    pa.array([1, -2, 2**63 - 1], pa.int64()), pa.array([1, -2, 7], pa.date32()),
    pa.array([1, -2, 7], pa.time64("us")), pa.array([1, -2, 7], pa.timestamp("us", "UTC")),
    pa.array([True, False, True]),
]  # fmt: skip


@pytest.mark.parametrize("array", WORDS, ids=lambda a: str(a.type))
def test_keys_hash_alike_as_words(array: pa.Array) -> None:
    words = (
        pa.array([int(v) for v in array.cast(pa.int64(), safe=False).to_pylist()], pa.int64())
        if not pa.types.is_date32(array.type)
        else array.cast(pa.int32()).cast(pa.int64())
    )
    for own, same in (([array], [words]), ([array, array], [words, words])):
        for a, b in zip(hash_arrays(own), hash_arrays(same), strict=True):
            assert a.tolist() == b.tolist()


AGGREGATES = (
    "count(*) AS n", "count(v) AS c", "sum(v) AS s", "sum(b) AS sb", "avg(v) AS a", "min(v) AS lo",
    "max(ts) AS hi", "min(t) AS lt", "max(d) AS md", "bool_or(v > 3) AS o", "sum(d) AS sd",
    "min(x) AS lx",
)  # fmt: skip


def rows(n: int, seed: int) -> list[tuple[object, ...]]:
    rng = np.random.default_rng(seed)
    made = []
    for i in range(n):
        v = None if rng.random() < 0.2 else int(rng.integers(-3, 6))
        made.append((
            seed * 10_000 + i, int(rng.integers(0, 40)), v, None if v is None else v * 2**40,
            f"'t{v}'" if v is not None else None, f"{v}.25" if v is not None else None,
            f"TIMESTAMP '2024-01-01 00:00:0{abs(v or 0)}'", f"'{(v or 0) / 4}'",
        ))  # fmt: skip
    return made


def values(made: list[tuple[object, ...]]) -> str:
    return ", ".join(
        "(" + ", ".join("NULL" if c is None else str(c) for c in row) + ")" for row in made
    )


def test_one_row_many_rows_and_none_left() -> None:
    """Ticks of 1 and of 900 rows, inserts, updates, deletes, the view equals the query after each;
    in the end nothing is left."""
    with streamsql.connect(":memory:") as db:
        db.execute(
            "CREATE TABLE r (id INT PRIMARY KEY, k INT, v INT, b BIGINT, t TEXT, d NUMERIC(8,2),"
            " ts TIMESTAMP, x DOUBLE PRECISION)"
        )
        listed = ", ".join(AGGREGATES)
        queries = {
            "by_key": f"SELECT k, {listed} FROM r GROUP BY k",
            "all_rows": f"SELECT {listed} FROM r",
            "shown": "SELECT k, max(v) AS m FROM r WHERE v + 1 >= 2 GROUP BY k",
            "one": "SELECT k, min(t) AS m, bool_and(v > 1) AS e FROM r GROUP BY k",
            "windowed": "SELECT window_start, window_end, k, sum(b) AS s FROM "
            "TUMBLE(r, ts, INTERVAL '2 seconds') GROUP BY window_start, window_end, k",
        }
        for name, query in queries.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")

        def check() -> None:
            for name, query in queries.items():
                difference = db.execute(
                    f"(SELECT * FROM {name} EXCEPT ALL ({query})) UNION ALL "
                    f"(({query}) EXCEPT ALL SELECT * FROM {name})"
                ).fetchall()
                assert difference == [], name

        for row in rows(12, 1):
            db.execute(f"INSERT INTO r VALUES {values([row])}")
        check()
        db.execute(f"INSERT INTO r VALUES {values(rows(900, 2))}")
        check()
        db.execute("UPDATE r SET v = v + 1, ts = ts + INTERVAL '1 second' WHERE id % 3 = 0")
        check()
        db.execute("UPDATE r SET v = 3 WHERE id = 10001")
        db.execute("DELETE FROM r WHERE k % 2 = 0")
        check()
        db.execute("DELETE FROM r WHERE id > 10000")
        check()
        db.execute("DELETE FROM r")
        check()
        held = [
            node.operator.state_rows()
            for node in db.engine.circuit  # type: ignore[attr-defined]
        ]
        assert sum(held) == 0


def test_values_shown_before_are_swept() -> None:
    """Groups whose largest text changes with every tick keep only a few old ones."""
    extreme = OrderedExtreme(AggregateCall(function="max", args=(column(0, TEXT),), type=TEXT))
    cells, slots = np.zeros((100, 2), np.int64), np.arange(100)
    for i in range(100):
        extreme.add(cells, slots, np.empty(0, np.int64), pa.array([f"{i:06}"] * 100))
        extreme.settle(cells, slots)
        extreme.tidy(cells)
    assert extreme.result(cells).to_pylist() == ["000099"] * 100
    assert extreme.shown.num_rows < 5000


def test_cells_grow_in_place_unless_somebody_holds_them() -> None:
    """Growing keeps what is there, and does not pull memory away from who looks at it."""
    groups = Groups(Schema.of(("k", BIGINT)), (0,), 3)
    for start in range(0, 3000, 1000):
        held = groups.cells[:, 2] if start == 1000 else None
        keys = pa.array(np.arange(start, start + 1000))
        slots, opened = groups.upsert_columns([keys], 1000)
        assert opened.size == 1000
        groups.cells[slots, 2] = np.arange(start, start + 1000)
        if held is not None:
            assert held[:1000].tolist() == list(range(1000))
    assert groups.cells[:3000, 2].tolist() == list(range(3000))
    assert groups.key_rows(np.array([5, 2999])).column(0).to_pylist() == [5, 2999]
