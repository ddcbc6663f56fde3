"""Ordered aggregates, grouping sets, recursion and set-returning functions against DuckDB after every tick."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracle.aggregate_shapes import AGGREGATE_SHAPES
from tests.oracle.test_views_equal_queries import DEEP, History, Pair


@pytest.mark.parametrize("seed", range(40) if DEEP else range(1))
def test_views_equal_duckdb_after_every_statement_and_through_a_restart(
    seed: int, tmp_path: Path
) -> None:
    pair = Pair(str(tmp_path / "data"), AGGREGATE_SHAPES)
    pair.create_views()
    history = History(seed + 700)
    for step in range(30 if DEEP else 14):
        statement = history.step()
        pair.run(statement)
        pair.check(f"after {statement} (seed {seed})")
        if step == 7:
            pair.restart()
    pair.check_ad_hoc()
    for table in ("e", "t", "u"):
        pair.run(f"DELETE FROM {table}")
        pair.check(f"after emptying {table} (seed {seed})")
    pair.close()


def test_views_over_filled_tables_equal_duckdb(tmp_path: Path) -> None:
    pair = Pair(":memory:", AGGREGATE_SHAPES)
    history = History(811)
    for _ in range(25):
        pair.run(history.step())
    pair.create_views()
    pair.check("after the first filling")
    pair.run(history.change())
    pair.check("after a change")
    pair.close()


def test_every_shape_is_incremental() -> None:
    pair = Pair(":memory:", ())
    for shape in AGGREGATE_SHAPES:
        lines = pair.db.execute(f"EXPLAIN CREATE MATERIALIZED VIEW z AS {shape.sql}").fetchall()
        assert lines[0][0] == "Maintenance: incremental", shape.name
    pair.close()


def test_there_are_enough_shapes() -> None:
    assert len({s.name for s in AGGREGATE_SHAPES}) == len(AGGREGATE_SHAPES) >= 40
