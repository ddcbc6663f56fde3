"""What waits for the watermark: the queue of close times, and the rows that EMIT holds back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from streamsql.circuit.operator import Step
from streamsql.core.delta import Delta
from streamsql.core.errors import NegativeWeight
from streamsql.core.logical_time import END_OF_TIME, NO_WATERMARK
from streamsql.core.schema import Column, Schema
from streamsql.core.types import BIGINT, TIMESTAMP
from streamsql.operators.event_time import CloseQueue
from streamsql.operators.hold_back import FRESH_MAX, HoldBack
from streamsql.operators.session_bounds import SessionBounds

SCHEMA = Schema((Column("c0", BIGINT), Column("c1", TIMESTAMP)))


@pytest.mark.parametrize("seed", range(6))
def test_pops_each_pair_once_in_order_of_time_and_slot(seed: int) -> None:
    random = np.random.default_rng(seed)
    queue, waiting, mark = CloseQueue(), set(), 0
    for _ in range(60):
        n = int(random.integers(0, 30))
        times, slots = random.integers(0, 400, n), random.integers(0, 20, n)
        queue.push(times, slots)
        waiting |= set(zip(times.tolist(), slots.tolist(), strict=True))
        mark += int(random.integers(-5, 15))
        found = list(zip(*(part.tolist() for part in queue.pop(mark)), strict=True))
        assert found == sorted(pair for pair in waiting if pair[0] <= mark)
        waiting -= set(found)
        assert queue.next_us() == min((time for time, _ in waiting), default=None)


def test_many_times_are_few_runs_and_what_left_is_given_back() -> None:
    queue = CloseQueue()
    for start in range(0, 100_000, 100):
        queue.push(np.arange(start, start + 100), np.arange(100))
    assert len(queue._runs) <= 18
    for mark in range(0, 99_000, 1000):
        assert queue.pop(mark)[0].size == (1000 if mark else 1)
    held = sum((t if t.base is None else t.base).size for t, _ in queue._runs)
    assert held <= 2 * (100_000 - 98_001)
    assert queue.pop(END_OF_TIME)[0].size == 0  # the end of a source closes nothing


def _rows(ids: np.ndarray, times: np.ndarray, weights: np.ndarray | None = None) -> Delta:
    columns = [pa.array(ids), pa.array(times, pa.timestamp("us"))]
    return Delta(pa.RecordBatch.from_arrays(columns, schema=SCHEMA.arrow), weights)


def _step(operator: HoldBack, delta: Delta, watermark: int) -> Delta:
    return operator.step(Step(1, 0, input_watermarks=(watermark,)), delta)


def _pairs(delta: Delta) -> list[tuple[int, int, int]]:
    ids, times = (np.asarray(c.cast(pa.int64())).tolist() for c in delta.columns)
    return list(zip(times, ids, delta.weights_or_ones().tolist(), strict=True))


@pytest.mark.parametrize("seed", range(4))
def test_held_rows_come_once_in_order_with_their_weights(seed: int) -> None:
    random = np.random.default_rng(seed)
    operator, mark = HoldBack(SCHEMA, {1: 0}, 0, False), 0
    waiting: dict[tuple[int, int], int] = {}
    for tick in range(80):
        n = int(random.integers(0, 3 * FRESH_MAX if tick % 9 == 0 else 4))
        ids, times = random.integers(0, 5, n), mark + 1 + random.integers(0, 200, n)
        for pair in zip(times.tolist(), ids.tolist(), strict=True):
            waiting[pair] = waiting.get(pair, 0) + 1
        came = _rows(ids, times)
        if tick % 3 == 2 and waiting:
            chosen = sorted(waiting)[:: int(random.integers(1, 4))]
            gone = [waiting.pop(pair) for pair in chosen]
            t, i = np.array(chosen).T
            back = _rows(i, t, -np.array(gone))
            assert not _step(operator, back, mark)
        mark += int(random.integers(0, 20))
        out = _pairs(_step(operator, came, mark))
        assert out == sorted((*p, w) for p, w in waiting.items() if p[0] <= mark)
        waiting = {p: w for p, w in waiting.items() if p[0] > mark}
    assert operator.state_rows() == len(waiting)
    again = HoldBack(SCHEMA, {1: 0}, 0, False)
    again.load(operator.save())
    rest = _rows(np.empty(0, np.int64), np.empty(0, np.int64))
    assert _pairs(_step(again, rest, 10**6)) == sorted((*p, w) for p, w in waiting.items())
    assert again.state_rows() == 0


def test_a_row_taken_back_too_often_is_noticed() -> None:
    operator = HoldBack(SCHEMA, {1: 0}, 0, False)
    _step(operator, _rows(np.array([1]), np.array([5]), np.array([-1])), 0)
    with pytest.raises(NegativeWeight):
        _step(operator, Delta.empty(SCHEMA), 9)


def test_lateness_is_tried_among_the_sessions_of_the_rows_own_partitions() -> None:
    bounds = SessionBounds(Schema((Column("c0", BIGINT),)), 10, 0, closes=True)
    keys = pa.RecordBatch.from_arrays([pa.array(range(50))], names=["c0"])
    parts = bounds.partition_slots(keys)
    for start in (100, 200, 300):
        bounds.place(parts, np.full(50, start), None)
    before = {name: getattr(bounds, name).copy() for name in ("head", "floor", "first", "last")}
    marks = np.full(4, 250)
    # in a session that is closed; alone behind the mark; in an open one; a new one
    late = bounds.late_inserts(np.array([3, 3, 7, 7]), np.array([205, 150, 295, 400]), marks)
    assert late.tolist() == [True, True, False, False]
    assert bounds.late_inserts(parts[:1], np.array([5]), np.array([NO_WATERMARK])).tolist() == [
        False
    ]
    assert all((getattr(bounds, name) == array).all() for name, array in before.items())
