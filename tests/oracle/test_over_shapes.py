"""Views with OVER equal DuckDB's answers after every statement and restart, and are incremental."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracle.over_shapes import OVER_SHAPES
from tests.oracle.test_views_equal_queries import DEEP, History, Pair


def make_pair(tmp_path: Path) -> Pair:
    pair = Pair(str(tmp_path / "data"), OVER_SHAPES)
    pair.oracle.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'")
    return pair


@pytest.mark.parametrize("seed", range(20) if DEEP else [7])
def test_over_follows_every_statement(seed: int, tmp_path: Path) -> None:
    pair = make_pair(tmp_path)
    pair.create_views()
    history = History(seed)
    for i in range(9):
        statement = history.step()
        pair.run(statement)
        pair.check(f"after {statement} (seed {seed})")
        if i == 5:
            pair.restart()
    pair.check_ad_hoc()
    for table in ("t", "u", "e"):
        pair.run(f"DELETE FROM {table}")
        pair.check(f"without {table} (seed {seed})")
    pair.close()


@pytest.mark.parametrize("seed", range(100, 120) if DEEP else [103])
def test_over_made_over_filled_tables(seed: int, tmp_path: Path) -> None:
    pair = make_pair(tmp_path)
    history = History(seed)
    for _ in range(10):
        pair.run(history.step())
    pair.create_views()
    for shape in OVER_SHAPES:
        plan = pair.db.execute(f"EXPLAIN MATERIALIZED VIEW mv_{shape.name}").fetchall()
        assert plan[0] == ("Maintenance: incremental",), shape.name
    for _ in range(3):
        statement = history.step()
        pair.run(statement)
        pair.check(f"after {statement} (seed {seed})")
    pair.close()


def test_names_of_shapes_are_their_own() -> None:
    assert len({s.name for s in OVER_SHAPES}) == len(OVER_SHAPES) >= 25
