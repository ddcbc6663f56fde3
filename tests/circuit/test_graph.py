"""The circuit: order, sharing, freeing, watermarks, timers, backfill, state under stable names."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from streamsql.circuit.checks import EdgeChecks
from streamsql.circuit.graph import Circuit, Node
from streamsql.circuit.operator import Operator, Step
from streamsql.core.delta import Delta
from streamsql.core.errors import DataCorrupted, InvariantViolation
from streamsql.core.logical_time import END_OF_TIME, NO_WATERMARK
from streamsql.core.schema import Schema
from streamsql.core.types import BIGINT
from streamsql.operators.arrange import Arrange
from streamsql.operators.source import Source
from streamsql.operators.union import UnionAll

SCHEMA = Schema.of(("x", BIGINT))


def delta(*values: int, weights: list[int] | None = None) -> Delta:
    batch = pa.record_batch([pa.array(values, pa.int64())], schema=SCHEMA.arrow)
    return Delta(batch, None if weights is None else np.array(weights, np.int64))


class Recorder(Operator):
    """Passes its input on and remembers when it was stepped."""

    def __init__(self, log: list[str], title: str, needs_time: bool = False) -> None:
        super().__init__(SCHEMA)
        self.log, self.title, self.needs_time = log, title, needs_time
        self.due: int | None = None

    def step(self, step: Step, *deltas: Delta) -> Delta:
        self.log.append(self.title)
        if self.due is not None and self.due <= step.now_us:
            self.due = None
        return deltas[0]

    def next_timer_us(self) -> int | None:
        return self.due


def chain(*titles: str, **more: bool) -> tuple[Circuit, list[int], list[str]]:
    circuit, log = Circuit(), []
    nodes = [circuit.add(Source(SCHEMA, watermark_column=0))]
    for title in titles:
        nodes.append(circuit.add(Recorder(log, title, **more), [nodes[-1]]))
    circuit.retain(nodes[-1], output=True)
    circuit.step(Step(0, 0), {})  # new nodes are stepped once
    log.clear()
    return circuit, nodes, log


def test_tick_steps_only_what_changed_in_topological_order() -> None:
    circuit, nodes, log = chain("a", "b")
    circuit.add(Recorder(log, "idle"), [circuit.add(Source(SCHEMA))])
    circuit.step(Step(1, 0), {})
    log.clear()
    out = circuit.step(Step(2, 0), {nodes[0]: delta(1)})
    assert log == ["a", "b"]
    assert out[nodes[-1]].batch.to_pylist() == [{"c0": 1}]
    assert circuit.step(Step(3, 0), {}) == {}
    assert log == ["a", "b"]


def test_watermark_is_the_minimum_of_the_inputs_and_never_falls() -> None:
    circuit = Circuit()
    sources = [circuit.add(Source(SCHEMA, watermark_column=0)) for _ in range(2)]
    still = circuit.add(Source(SCHEMA))
    union = circuit.add(UnionAll(SCHEMA, 3), [*sources, still])
    circuit.step(Step(1, 0), {}, {sources[0]: 50})
    assert circuit.nodes[union].watermark == NO_WATERMARK
    circuit.step(Step(2, 0), {}, {sources[1]: 30})
    assert circuit.nodes[union].watermark == 30
    circuit.step(Step(3, 0), {}, {sources[1]: 10})
    assert circuit.nodes[union].watermark == 30
    assert circuit.nodes[still].watermark == END_OF_TIME


def test_watermark_alone_wakes_operators_that_need_time() -> None:
    circuit, nodes, log = chain("a", needs_time=True)
    circuit.step(Step(1, 0), {}, {nodes[0]: 5})
    assert log == ["a"]
    circuit.step(Step(2, 0), {}, {nodes[0]: 5})
    assert log == ["a"]
    circuit, nodes, log = chain("a")
    circuit.step(Step(1, 0), {}, {nodes[0]: 5})
    assert log == []


def test_timer_wakes_its_operator_when_due() -> None:
    circuit, nodes, log = chain("a")
    operator = circuit.nodes[nodes[1]].operator
    operator.due = 100
    assert circuit.next_timer_us() == 100
    circuit.step(Step(1, 99), {})
    assert log == []
    circuit.step(Step(2, 100), {})
    assert log == ["a"]
    assert circuit.next_timer_us() is None


def test_release_frees_nodes_that_nothing_needs_and_keeps_shared_ones() -> None:
    circuit = Circuit()
    source = circuit.add(Source(SCHEMA))
    circuit.retain(source)
    shared = circuit.add(Recorder([], "shared"), [source], "shared")
    first = circuit.add(Recorder([], "first"), [shared], "first")
    second = circuit.add(Recorder([], "second"), [shared], "second")
    circuit.retain(first, output=True)
    circuit.retain(second, output=True)
    assert circuit.release(first) == [first]
    assert circuit.find("first") is None and circuit.find("shared") == shared
    assert circuit.release(second) == [second, shared]
    assert list(circuit.nodes) == [source]


def test_two_nodes_of_one_name_are_refused() -> None:
    circuit = Circuit()
    circuit.add(Source(SCHEMA), (), "same")
    with pytest.raises(ValueError, match="same"):
        circuit.add(Source(SCHEMA), (), "same")


def test_backfill_gives_new_nodes_what_the_old_ones_hold() -> None:
    circuit = Circuit()
    source = circuit.add(Source(SCHEMA))
    arrange = circuit.add(Arrange(SCHEMA), [source])
    circuit.step(Step(1, 0), {source: delta(1, 2, 2)})
    log: list[str] = []
    new = circuit.add(Recorder(log, "new"), [arrange])
    circuit.retain(new, output=True)
    out = circuit.backfill(Step(1, 0), [new], {source: delta(1, 2, 2)})
    assert sorted(r["c0"] for r in out[new].batch.to_pylist()) in ([1, 2], [1, 2, 2])
    assert log == ["new"]


def test_states_come_back_by_label_and_a_missing_one_is_corruption() -> None:
    def build() -> tuple[Circuit, int]:
        circuit = Circuit()
        source = circuit.add(Source(SCHEMA, watermark_column=0), (), "source")
        circuit.add(Arrange(SCHEMA), [source], "rows")
        return circuit, source

    circuit, source = build()
    circuit.step(Step(1, 0), {source: delta(1, 2)}, {source: 9})
    again, _ = build()
    again.load(circuit.save(), circuit.watermarks())
    arranged = again.nodes[again.find("rows")]
    assert arranged.operator.state_rows() == 2
    assert arranged.watermark == 9
    with pytest.raises(DataCorrupted, match="rows"):
        build()[0].load({"source": {}}, {"source": 0})


def test_metrics_count_rows_and_steps() -> None:
    circuit, nodes, _ = chain("a")
    circuit.step(Step(1, 0), {nodes[0]: delta(1, 2, 3)})
    metrics = circuit.nodes[nodes[1]].metrics
    assert (metrics.rows_in, metrics.rows_out, metrics.steps) == (3, 3, 2)
    assert metrics.busy_ns > 0


# --- checks ----------------------------------------------------------------------------------------
def node_with(operator: Operator) -> Node:
    circuit = Circuit()
    return circuit.nodes[circuit.add(operator, (), "tested")]


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (Delta(pa.record_batch([pa.array([1], pa.int32())], names=["c0"])), "instead of"),
        (delta(1, 2, weights=[1]), "length"),
        (Delta(delta(1).batch, np.array([1.0])), "float64"),
        (delta(1, weights=[-1]), "append-only"),
    ],
)
def test_checks_refuse_a_broken_promise(output: Delta, message: str) -> None:
    source = Source(SCHEMA, append_only=True)
    with pytest.raises(InvariantViolation, match=message):
        EdgeChecks()(node_with(source), (), output)


def test_checks_refuse_duplicates_where_consolidation_was_promised() -> None:
    operator = Recorder([], "x")
    operator.consolidates = True
    node = node_with(operator)
    for bad in (delta(1, 1), delta(1, weights=[0])):
        with pytest.raises(InvariantViolation):
            EdgeChecks()(node, (), bad)


def test_checks_refuse_a_falling_watermark_and_a_negative_sum() -> None:
    node = node_with(Recorder([], "x"))
    checks = EdgeChecks(accumulate=True)
    node.watermark = 5
    checks(node, (), delta(1))
    with pytest.raises(InvariantViolation, match="negative"):
        checks(node, (), delta(1, 1, weights=[-1, -1]))
    node.watermark = 4
    with pytest.raises(InvariantViolation, match="watermark"):
        checks(node, (), delta(1))


def test_ten_idle_views_cost_microseconds() -> None:
    import time

    circuit = Circuit()
    busy, idle = (circuit.add(Source(SCHEMA)) for _ in range(2))
    node = circuit.add(Recorder([], "busy"), [busy])
    circuit.retain(node, output=True)
    for i in range(1000):
        circuit.add(Recorder([], f"idle{i}"), [idle])
    circuit.step(Step(0, 0), {})
    start = time.perf_counter()
    for tick in range(200):
        circuit.step(Step(tick, 0), {busy: delta(1)})
    assert (time.perf_counter() - start) / 200 < 0.02
