"""Views over joins of the rarer kinds equal DuckDB's answers after every statement and restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracle.join_shapes import JOIN_SHAPES
from tests.oracle.test_views_equal_queries import DEEP, History, Pair


@pytest.mark.parametrize("seed", range(20) if DEEP else [7])
def test_joins_follow_every_statement(seed: int, tmp_path: Path) -> None:
    pair = Pair(str(tmp_path / "data"), JOIN_SHAPES)
    pair.create_views()
    history = History(seed)
    for i in range(18):
        statement = history.step()
        pair.run(statement)
        pair.check(f"after {statement} (seed {seed})")
        if i == 9:
            pair.restart()
    pair.check_ad_hoc()
    for table in ("t", "u", "e"):
        pair.run(f"DELETE FROM {table}")
        pair.check(f"without {table} (seed {seed})")
    pair.close()


@pytest.mark.parametrize("seed", range(100, 120) if DEEP else [103])
def test_joins_made_over_filled_tables(seed: int, tmp_path: Path) -> None:
    pair = Pair(str(tmp_path / "data"), JOIN_SHAPES)
    history = History(seed)
    for _ in range(15):
        pair.run(history.step())
    pair.create_views()
    for _ in range(4):
        statement = history.step()
        pair.run(statement)
        pair.check(f"after {statement} (seed {seed})")
    pair.close()


def test_names_of_shapes_are_their_own() -> None:
    assert len({s.name for s in JOIN_SHAPES}) == len(JOIN_SHAPES)
