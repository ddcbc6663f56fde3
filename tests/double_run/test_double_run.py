"""Every query four ways, all equal to DuckDB: each stage's shapes; a rotating part of them by default."""

from __future__ import annotations

import datetime
import os
from dataclasses import replace

import pytest

from ..oracle.batch import Shape
from .harness import DoubleRun, Stage
from .stages import STAGES
from .stages.small import TABLES

DEEP = os.environ.get("STREAMSQL_DEEP") == "1"
PARTS = 4
# another part every day; STREAMSQL_DOUBLE_RUN_PART runs a certain one again
PART = int(os.environ.get("STREAMSQL_DOUBLE_RUN_PART") or datetime.date.today().toordinal()) % PARTS


def part_of(stage: Stage) -> tuple[Shape, ...]:
    return stage.shapes if DEEP else stage.shapes[PART::PARTS]


@pytest.mark.parametrize("seed", range(1, 6) if DEEP else (1,))
@pytest.mark.parametrize("stage", STAGES, ids=lambda s: s.name)
def test_a_query_gives_the_same_in_all_four_ways(stage: Stage, seed: int) -> None:
    outcome = DoubleRun(stage, seed, part_of(stage)).run()
    text = "\n".join(outcome.differences)
    assert not outcome.differences, f"STREAMSQL_DOUBLE_RUN_PART={PART}\n{text}"
    assert outcome.compared >= 4 * len(part_of(stage))
    assert outcome.rows > 0


def test_there_are_enough_shapes() -> None:
    shapes = [s for stage in STAGES for s in stage.shapes]
    assert len({s.sql + s.emit for s in shapes}) == len(shapes) >= 500
    assert len({s.name for s in shapes}) == len(shapes)


def test_a_view_that_differs_is_seen_in_every_way() -> None:
    wrong = Shape("wrong", "SELECT id, v FROM t", "SELECT id, v + (id = 3)::INT AS v FROM t")
    stage = replace(STAGES[0], name="wrong", tables=TABLES, shapes=(wrong,))
    found = DoubleRun(stage, 1).run().differences
    assert [d.split(":")[0] for d in found] == [
        "wrong as a view made before the load",
        "wrong ad hoc",
        "wrong as a view made after the load",
        "wrong as a view under a shuffled history",
    ]


def test_a_query_that_is_refused_is_seen() -> None:
    refused = Shape("refused", "SELECT nothing FROM t", "SELECT id FROM t")
    stage = replace(STAGES[0], name="refused", tables=TABLES, shapes=(refused,))
    found = DoubleRun(stage, 1).run().differences
    assert any('column "nothing" does not exist' in d for d in found)
