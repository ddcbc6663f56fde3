"""A source's changes in several parts: added up only where an operator needs them together."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamsql.circuit.graph import Circuit
from streamsql.circuit.operator import Operator, Step
from streamsql.core.delta import Delta
from streamsql.core.schema import Schema
from streamsql.core.types import INTEGER

SCHEMA = Schema.of(("k", INTEGER))


class Recorder(Operator):
    """The identity, which remembers the size of every delta it was given."""

    def __init__(self, rowwise: bool) -> None:
        super().__init__(SCHEMA)
        self.rowwise = rowwise
        self.sizes: list[int] = []

    def step(self, step: Step, *deltas: Delta) -> Delta:
        self.sizes.append(deltas[0].num_rows)
        return deltas[0]


def delta(*values: int, weight: int = 1) -> Delta:
    batch = pa.record_batch([pa.array(values, pa.int32())], schema=SCHEMA.arrow)
    return Delta(batch, np.full(len(values), weight, np.int64))


def circuit(*rowwise: bool) -> tuple[Circuit, list[Recorder]]:
    """A chain of recorders; the last one is the output."""
    made = Circuit()
    nodes = [Recorder(r) for r in rowwise]
    below: list[int] = []
    for node in nodes:
        below = [made.add(node, below)]
    made.retain(below[0], output=True)
    return made, nodes


def test_parts_stay_apart_until_an_operator_takes_them_together() -> None:
    chain, nodes = circuit(True, True, False, True)
    out = chain.step(Step(1, 0), {0: [delta(1, 2), delta(3), delta(2, weight=-1)]})
    assert [n.sizes for n in nodes] == [[2, 1, 1], [2, 1, 1], [4], [4]]
    assert out[3].batch.column(0).to_pylist() == [1, 2, 3, 2]
    assert out[3].weights.tolist() == [1, 1, 1, -1]


def test_output_of_several_parts_is_one_delta() -> None:
    chain, _ = circuit(True)
    step = Step(1, 0)
    out = chain.step(step, {0: [delta(1), delta(), delta(2)]})
    assert out[0].batch.column(0).to_pylist() == [1, 2]
    assert [d.num_rows for d in step.given[0]] == [1, 1]


def test_metrics_count_every_part() -> None:
    chain, _ = circuit(True, False)
    chain.step(Step(1, 0), {0: [delta(1), delta(2)]})
    metrics = chain.nodes[0].metrics
    assert (metrics.steps, metrics.rows_in, metrics.rows_out) == (2, 2, 2)


def test_operator_that_only_time_wakes_is_stepped_once() -> None:
    chain, nodes = circuit(True, True)
    chain.step(Step(1, 0), {})
    assert [n.sizes for n in nodes] == [[0], [0]]
