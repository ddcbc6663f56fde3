"""Laws over the registry: what every operator must obey, whatever it computes."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from streamsql.circuit.operator import Algebra, Step
from streamsql.core.delta import Delta
from streamsql.core.schema import Schema
from streamsql.core.types import INTEGER, TEXT, TIMESTAMP
from streamsql.operators import OPERATORS
from streamsql.operators.arrange import Arrange
from streamsql.operators.source import Source
from tests.operators.harness import Table, View, random_history, view_of

TIMES = [__import__("datetime").datetime(2024, 1, 1, 0, 0, 7 * i) for i in range(8)]
TABLES = [
    Table(
        Schema.of(("k", INTEGER), ("v", INTEGER), ("s", TEXT), ("ts", TIMESTAMP)),
        [[None, 1, 2], [None, 1, 2, -5], [None, "a", "b"], TIMES],
    )
] * 2
SHAPES = {
    "map": "SELECT k + 1, s FROM t0 WHERE v > 0",
    "union": "SELECT k FROM t0 UNION ALL SELECT v FROM t1",
    "tumble": "SELECT k, window_start FROM TUMBLE(t0, ts, INTERVAL '10 seconds')",
    "hop": "SELECT k, window_start FROM HOP(t0, ts, INTERVAL '5 seconds', INTERVAL '10 seconds')",
    "aggregate": "SELECT k, count(*), sum(v), min(s) FROM t0 GROUP BY k",
    "panes": "SELECT window_start, count(*) FROM HOP(t0, ts, INTERVAL '5 seconds', INTERVAL "
    "'10 seconds') GROUP BY window_start, window_end",
    "session": "SELECT k, window_start FROM SESSION(t0 PARTITION BY k, ts, INTERVAL '7 seconds')",
    "distinct": "SELECT DISTINCT k, s FROM t0",
    "join": "SELECT t0.s, t1.s FROM t0 JOIN t1 ON t0.k = t1.k",
    "semi": "SELECT s FROM t0 WHERE k IN (SELECT v FROM t1)",
    "outer": "SELECT t0.s, t1.s FROM t0 FULL JOIN t1 ON t0.k = t1.k",
    "asof": "SELECT t0.s, t1.s FROM t0 ASOF LEFT JOIN t1 ON t0.k = t1.k AND t1.ts < t0.ts",
    "except": "SELECT k FROM t0 EXCEPT ALL SELECT v FROM t1",
    "over": "SELECT k, lag(s) OVER (PARTITION BY k ORDER BY v, s, ts), sum(v) OVER (ORDER BY ts) FROM t0",
    "general": "SELECT k, string_agg(s, ',') OVER (PARTITION BY k ORDER BY v, s, ts) FROM t0",
    "temporal": "SELECT k FROM t0 WHERE ts > now() - INTERVAL '1 hour'",
    "stamp": "SELECT k, now() FROM t0",
    "series": "SELECT k, n FROM t0, generate_series(1, v) WITH ORDINALITY AS g(n, o)",
    "cube": "SELECT k, v, s, grouping(k, s), count(*), sum(v) FROM t0 GROUP BY k, CUBE (v, s)",
    "recursive": "WITH RECURSIVE r(a, b) AS (SELECT k, v FROM t0 UNION SELECT r.a, t1.v FROM r JOIN t1 ON r.b = t1.k) "
    "SELECT a, b FROM r",
    "recursive all": "WITH RECURSIVE r(a, d) AS (SELECT k, 0 FROM t0 UNION ALL SELECT t1.v, d + 1 FROM r JOIN t1 ON r.a = t1.k "
    "WHERE d < 2) SELECT a, d FROM r",
    "ordered": "SELECT k, array_agg(v ORDER BY v, s, ts), string_agg(DISTINCT s, ','), "
    "percentile_cont(0.5) WITHIN GROUP (ORDER BY v), mode() WITHIN GROUP (ORDER BY s), bit_xor(v), "
    "arg_max(s, s), corr(v, k), jsonb_object_agg(s, v ORDER BY v, s, ts) FROM t0 GROUP BY k",
}


def fresh(name: str) -> View:
    return view_of(SHAPES[name], TABLES)


@pytest.mark.parametrize("name", SHAPES)
def test_order_of_rows_within_a_tick_does_not_matter(name: str) -> None:
    history = random_history(TABLES, 3, ticks=6, most=8)
    one, other = fresh(name), fresh(name)
    rng = random.Random(1)
    for events in history:
        one.step(events)
        shuffled = list(events)
        rng.shuffle(shuffled)
        other.step(shuffled)
        assert one.output == other.output


@pytest.mark.parametrize("name", SHAPES)
def test_save_load_step_equals_step(name: str) -> None:
    history = random_history(TABLES, 4, ticks=8, most=8)
    one, other = fresh(name), fresh(name)
    for events in history:
        one.step(events)
        other.restart()
        other.step(events)
        assert one.output == other.output


@pytest.mark.parametrize("name", SHAPES)
def test_empty_in_empty_out(name: str) -> None:
    view = fresh(name)
    view.step(random_history(TABLES, 5, ticks=1, most=9)[0])
    for node in view.circuit:
        if isinstance(node.operator, Source):
            continue
        empty = [Delta.empty(view.circuit.nodes[i].operator.schema) for i in node.inputs]
        step = Step(99, 0)
        step.input_watermarks = tuple(view.circuit.nodes[i].watermark for i in node.inputs)
        assert not node.operator.step(step, *empty), node.label


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["map", "union", "tumble", "hop", "series"])
def test_linear_operator_of_a_sum_is_the_sum(name: str, seed: int) -> None:
    parts = list(random_history(TABLES, seed, ticks=2, most=9))
    apart, together = fresh(name), fresh(name)
    node = together.circuit.nodes[together.compiled.output]
    assert node.operator.algebra is Algebra.LINEAR
    for events in parts:
        apart.step(events)
    together.step([e for events in parts for e in events])
    assert apart.output == together.output


def test_bilinear_operator_is_linear_in_each_input() -> None:
    view = fresh("join")
    joins = [n for n in view.circuit if n.operator.algebra is Algebra.BILINEAR]
    assert joins
    history = random_history(TABLES, 7, ticks=4, most=8)
    left_first, right_first = fresh("join"), fresh("join")
    for relation in (0, 1):
        left_first.step([e for events in history for e in events if e[0] == relation])
        right_first.step([e for events in history for e in events if e[0] == 1 - relation])
    assert left_first.output == right_first.output


def test_registry_ends_with_the_general_operator_and_names_every_operator_once() -> None:
    lowers = [lower for _, lower in OPERATORS]
    assert len(set(lowers)) == len(lowers)
    assert lowers[-1].__module__ == "streamsql.operators.general"


def test_shared_arrangement_shows_the_rows_before_the_tick_until_commit() -> None:
    schema = Schema.of(("k", INTEGER))
    arrange = Arrange(schema)
    batch = pa.record_batch([pa.array([1], pa.int32())], schema=schema.arrow)
    delta = Delta(batch, np.array([2]))
    assert arrange.step(Step(1, 0), delta) is delta
    assert arrange.rows.live_rows == 0
    arrange.commit()
    assert arrange.current().weights_or_ones().tolist() == [2]
