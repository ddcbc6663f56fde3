"""Interval joins: equal keys and a span of time, with state that the watermarks free."""

from __future__ import annotations

import datetime
import random
from collections import Counter

import pytest

from streamsql.core.schema import Schema
from streamsql.core.types import INTEGER, TIMESTAMP
from streamsql.operators import Options, condition_join
from tests.operators.harness import (
    Table,
    View,
    batch_sql,
    check_view,
    plan_of,
    rows_of,
    us,
    view_of,
)

SECOND = 1_000_000
START = datetime.datetime(2024, 1, 1)
SCHEMA = Schema.of(("id", INTEGER), ("k", INTEGER), ("t", TIMESTAMP), ("u", TIMESTAMP))


def at(second: float) -> datetime.datetime:
    return START + datetime.timedelta(seconds=second)


def table(delay: float = 100, *, append_only: bool = False) -> Table:
    times = [*(at(s) for s in range(0, 40, 3)), None]
    return Table(
        SCHEMA, (range(30), (1, 2, None), times, times), append_only=append_only,
        watermark_column=2, watermark_delay_us=int(delay * SECOND),
    )  # fmt: skip


SHAPES = {
    "both ways": "SELECT a.id, b.id AS other, a.t FROM t0 a JOIN t1 b ON a.k = b.k AND b.t BETWEEN a.t - INTERVAL '5 seconds' AND a.t + INTERVAL '10 seconds'",
    "until a column": "SELECT a.*, b.id AS other, b.t AS bt FROM t0 a JOIN t1 b ON a.k = b.k AND b.t BETWEEN a.t AND a.u",
    "strict": "SELECT a.id, b.id AS other FROM t0 a JOIN t1 b ON a.k = b.k AND b.t > a.t AND a.t + INTERVAL '9 seconds' > b.t",
    "turned round": "SELECT a.id, b.id AS other FROM t0 a, t1 b WHERE b.k = a.k AND a.t <= b.t AND b.t - INTERVAL '6 seconds' <= a.t",
    "more conditions": "SELECT a.id, b.id AS other FROM t0 a JOIN t1 b ON a.k = b.k AND b.t BETWEEN a.t AND a.t + INTERVAL '9 seconds' AND a.id < b.id + 5 AND b.t <= a.u",
    "computed key": "SELECT a.id, b.id AS other, b.u FROM t0 a JOIN t1 b ON a.k + 1 = b.k AND b.t BETWEEN a.t AND a.t + INTERVAL '1 day'",
    "NULL keys match": "SELECT a.id, b.id AS other FROM t0 a JOIN t1 b ON a.k IS NOT DISTINCT FROM b.k AND b.t BETWEEN a.t AND a.t + INTERVAL '9 seconds'",
}  # fmt: skip


def operator(view: View):
    found = [n.operator for n in view.circuit if type(n.operator).__name__ == "IntervalJoin"]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("append_only", [False, True])
def test_interval_join_equals_its_query(shape: str, seed: int, append_only: bool) -> None:
    tables = [table(append_only=append_only), table(append_only=append_only)]
    plan = plan_of(SHAPES[shape], tables)
    operator(View(plan, tables, batch_sql(plan)))
    check_view(plan, tables, batch_sql(plan), seed, ticks=8, most=12)


def test_self_join_of_one_stream() -> None:
    sql = "SELECT a.id, b.id AS other FROM t0 a JOIN t0 b ON a.k = b.k AND b.t BETWEEN a.t AND a.t + INTERVAL '9 seconds'"
    plan = plan_of(sql, [table()])
    operator(View(plan, [table()], batch_sql(plan)))
    check_view(plan, [table()], batch_sql(plan), 3, ticks=8, most=12)


@pytest.mark.parametrize("sql", [
    "SELECT a.id FROM t0 a JOIN t1 b ON b.t BETWEEN a.t AND a.u",
    "SELECT a.id FROM t0 a JOIN t1 b ON a.k = b.k AND b.t <= a.u",
    "SELECT a.id FROM t0 a JOIN t1 b ON a.k = b.k AND b.u BETWEEN a.t AND a.u",
    "SELECT a.id FROM t0 a JOIN t1 b ON a.k = b.k AND b.t BETWEEN a.t AND a.t + INTERVAL '1 month'",
])  # fmt: skip
def test_without_a_span_on_both_sides_it_is_another_join(sql: str) -> None:
    view = view_of(sql, [table(), table()])
    assert not any(type(n.operator).__name__ == "IntervalJoin" for n in view.circuit)


def test_watermarks_free_rows_whose_partners_can_not_come() -> None:
    view = view_of(SHAPES["both ways"], [table(0), table(0)])
    for second in range(0, 1000, 10):
        rows = [(second + i, 1, at(second + i), None) for i in range(10)]
        view.step([*((0, row, 1) for row in rows), *((1, row, 1) for row in rows)])
        view.verify()
        assert view.state_rows() < 60
    assert len(operator(view).logs[0].pieces) < 6


def test_small_ticks_are_merged_to_few_pieces() -> None:
    view = view_of(SHAPES["until a column"], [table(), table()])
    for i in range(200):
        view.insert((i, i % 7, at(i / 10), at(30)))
    assert len(operator(view).logs[0].pieces) <= 9
    view.insert(*((i, i % 7, at(20 + i / 10), None) for i in range(30)), into=1)
    view.verify()


def test_retraction_takes_pairs_back_while_its_span_is_open() -> None:
    view = view_of(SHAPES["both ways"], [table(0), table(0)])
    view.insert((1, 1, at(50), None))
    view.insert((2, 1, at(52), None), into=1)
    assert sum(view.output.values()) == 1
    view.delete((1, 1, at(50), None))
    assert not view.output
    view.insert((3, 1, at(53), None), into=1)
    assert not view.output


class ByHand:
    """The rule, one entry after the other: an entry counts unless its span is behind its own
    watermark and that of the other side before the tick; then it meets what is there."""

    def __init__(self, after: float, before: float) -> None:
        self.plus = (int(after * SECOND), int(before * SECOND))
        self.rows: list[list[tuple]] = [[], []]
        self.marks = [-(2**63), -(2**63)]
        self.tick()
        self.output: Counter = Counter()
        self.late = 0

    def tick(self) -> None:
        self.before = list(self.marks)

    def come(self, side: int, row: tuple, weight: int, delay: int) -> None:
        mark, time = self.marks[side], us(row[2])
        if weight > 0:
            self.marks[side] = max(mark, time - delay)
        mark = min(mark, self.before[1 - side])
        if time + self.plus[side] < mark:
            self.late += 1
            return
        for other, w in self.rows[1 - side]:
            there = us(other[2])
            near = there <= time + self.plus[side] and time <= there + self.plus[1 - side]
            if other[1] == row[1] and near:
                pair = (row[0], other[0]) if side == 0 else (other[0], row[0])
                self.output[pair] += weight * w
        self.rows[side].append((row, weight))


@pytest.mark.parametrize("seed", range(12))
def test_late_rows_are_dropped_when_their_span_is_over(seed: int) -> None:
    rng = random.Random(seed)
    tables = [table(5), table(8)]
    sql = "SELECT a.id, b.id AS other FROM t0 a JOIN t1 b ON a.k = b.k AND b.t BETWEEN a.t - INTERVAL '4 seconds' AND a.t + INTERVAL '7 seconds'"
    view, rule = view_of(sql, tables), ByHand(7, 4)
    cut = view_of(sql, tables)  # the rows of one side may come in any number of ticks
    live: list[tuple[int, tuple]] = []
    number, second = 0, 0.0
    for tick in range(25):
        events, alone = [], rng.choice([None, 0, 1])
        for _ in range(rng.randint(1, 8)):
            number += 1
            second += rng.random() * 2
            side = rng.randrange(2) if alone is None else alone
            if alone is None and live and rng.random() < 0.2:
                side, row = live.pop(rng.randrange(len(live)))
                events.append((side, row, -1))
                continue
            row = (number, rng.randint(1, 2), at(round(second - rng.choice((0, 2, 25)), 3)), None)
            live.append((side, row))
            events.append((side, row, 1))
        rule.tick()
        for side, row, weight in events:
            rule.come(side, row, weight, tables[side].watermark_delay_us)
        if tick == 12:
            view.restart()
        view.step(events)
        for part in [events] if alone is None else [[e] for e in events]:
            cut.step(part)
        assert view.output == Counter({k: v for k, v in rule.output.items() if v}), tick
        assert cut.output == view.output
    assert sum(len(rows_of(found.batch)) for found in view.late) == rule.late > 0


def test_late_row_of_a_span_that_ends_at_a_column_is_dropped() -> None:
    view = view_of(SHAPES["until a column"], [table(0), table(0)])
    view.insert((1, 1, at(10), at(90)))
    view.insert((2, 1, at(9), at(90)))  # the other side is behind it
    view.insert((3, 1, at(20), None), into=1)
    view.insert((4, 1, at(10), at(90)))
    view.insert((5, 1, at(9), at(90)))
    assert sorted(row[0] for row in view.output) == [1, 2, 4]
    assert [found.batch.column(0).to_pylist() for found in view.late] == [[5]]


OUTER = {
    "left": "SELECT a.id, b.id AS other FROM t0 a LEFT JOIN t1 b ON {on}",
    "right": "SELECT a.id, b.id AS other FROM t1 b RIGHT JOIN t0 a ON {on}",
    "full": "SELECT a.id, b.id AS other FROM t0 a FULL JOIN t1 b ON {on}",
    "semi": "SELECT a.id FROM t0 a WHERE EXISTS (SELECT 1 FROM t1 b WHERE {on})",
    "anti": "SELECT a.id FROM t0 a WHERE NOT EXISTS (SELECT 1 FROM t1 b WHERE {on})",
}
NEXT_MINUTE = "a.k = b.k AND b.t BETWEEN a.t AND a.t + INTERVAL '60 seconds'"
BOTH_WAYS = "a.k = b.k AND b.t BETWEEN a.t - INTERVAL '4 seconds' AND a.t + INTERVAL '7 seconds'"
UNTIL_A_COLUMN = "a.k = b.k AND b.t BETWEEN a.t AND a.u"


def held(shape: str, on: str, delay: float = 0) -> View:
    return view_of(OUTER[shape].format(on=on), [table(delay), table(delay)], Options(on_close=True))


@pytest.mark.parametrize(("shape", "pair", "alone"), [
    ("left", (1, 11), (2, None)), ("right", (1, 11), (2, None)), ("semi", (1,), None),
    ("anti", None, (2,)),
])  # fmt: skip
@pytest.mark.parametrize("on", [NEXT_MINUTE, UNTIL_A_COLUMN])
def test_on_close_a_row_waits_for_the_end_of_its_span(shape, pair, alone, on) -> None:
    view = held(shape, on)
    view.insert((1, 1, at(30), at(90)))
    view.insert((10, 9, at(31), None), into=1)
    view.insert((2, 2, at(40), at(100)))
    view.insert((11, 1, at(70), None), into=1)
    view.insert((3, 8, at(540), at(600)))
    assert not view.output
    view.insert((12, 8, at(90), None), into=1)
    assert not view.output
    view.insert((12, 8, at(90.000001), None), into=1)
    assert view.output == ({pair: 1} if pair else {})
    view.insert((13, 9, at(101), None), into=1)
    assert view.output == {row: 1 for row in (pair, alone) if row}
    assert not view.late


def test_on_close_full_join_gives_both_sides_alone_once() -> None:
    view = held("full", BOTH_WAYS)
    view.insert((1, 1, at(10), None), (2, 2, at(11), None))
    view.insert((11, 1, at(8), None), (12, 3, at(12), None), into=1)
    view.insert((13, 2, at(18), None), into=1)
    view.insert((3, 9, at(100), None))
    assert view.output == {(1, 11): 1, (None, 12): 1}
    view.insert((14, 9, at(100), None), into=1)
    assert view.output == {(1, 11): 1, (2, 13): 1, (None, 12): 1}
    assert not view.late


def test_a_row_without_an_end_of_its_span_closes_by_its_own_time() -> None:
    view = held("left", UNTIL_A_COLUMN)
    view.insert((1, 1, at(10), None), (2, 1, at(50), at(50)))
    view.insert((11, 1, at(10), None), (12, 1, at(20), None), into=1)
    assert view.output == {(1, None): 1}


@pytest.mark.parametrize("shape", OUTER)
@pytest.mark.parametrize("on", [BOTH_WAYS, NEXT_MINUTE, UNTIL_A_COLUMN])
def test_outer_interval_joins_free_what_is_over(shape, on, monkeypatch) -> None:
    monkeypatch.setattr(condition_join, "FREE_FROM", 20)
    view = view_of(OUTER[shape].format(on=on), [table(30), table(30)])
    plain = view_of(OUTER[shape].format(on=on), [table(10**6), table(10**6)])
    rng = random.Random(5)
    for second in range(0, 600, 10):
        events = []
        for i in range(10):
            time = second + i - rng.randint(0, 4)
            row = (second + i, rng.randint(1, 5), at(time), at(time + rng.randint(-3, 20)))
            events += [(side, row, 1) for side in (0, 1) if rng.random() < 0.6]
        if second % 100 == 50:
            side, row, _ = events[0]
            events.append((side, row, -1))
        view.step(events)
        plain.step(events)
        if second == 300:
            view.restart()
        assert view.output == plain.output, second
    assert not view.late
    assert view.state_rows() < 300 < plain.state_rows()  # of about 720


@pytest.mark.parametrize("shape", OUTER)
def test_what_is_over_is_not_taken_back_any_more(shape: str, monkeypatch) -> None:
    monkeypatch.setattr(condition_join, "FREE_FROM", 1)
    view = view_of(OUTER[shape].format(on=BOTH_WAYS), [table(0), table(0)])
    view.insert((1, 1, at(10), None), (2, 2, at(10), None))
    view.insert((11, 1, at(12), None), into=1)
    for second in (100, 200):
        view.insert((second, 9, at(second), None))
        view.insert((second, 8, at(second), None), into=1)
    before = dict(view.output)
    view.delete((1, 1, at(10), None))
    view.step([(1, (11, 1, at(12), None), -1)])
    view.insert((12, 2, at(12), None), into=1)
    assert view.output == before
    firsts = [1, 1, 2] if shape in ("semi", "anti") else [1, 11, 12]  # EXISTS reads no id, but k
    assert [rows_of(found.batch)[0][0] for found in view.late] == firsts
    view.insert((201, 9, at(200), None), into=1)
    assert view.state_rows() <= 4


def test_outer_interval_join_drops_the_late_rows_that_the_inner_one_drops() -> None:
    tables = [table(0), table(0)]
    left = view_of(OUTER["left"].format(on=BOTH_WAYS), tables)
    inner = view_of(OUTER["left"].format(on=BOTH_WAYS).replace("LEFT ", ""), tables)
    for view in (left, inner):
        view.insert((10, 1, at(50), None), (11, 7, at(60), None), into=1)
        view.insert((1, 2, at(60), None))
        view.insert((2, 1, at(53), None), (3, 1, at(52.9), None))
        assert [rows_of(found.batch) for found in view.late] == [[(3, 1, at(52.9))]]
    assert inner.output == {(2, 10): 1}
    assert left.output == {(2, 10): 1, (1, None): 1}
