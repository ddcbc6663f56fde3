"""FOR SYSTEM_TIME AS OF PROCTIME() and l.t, against models that walk the history row by row."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter, defaultdict

import pytest

from streamsql.core.errors import FeatureNotSupported
from streamsql.core.schema import Schema
from streamsql.core.types import INTEGER, TEXT, TIMESTAMP
from streamsql.operators import Options
from streamsql.runtime.explain import explain
from tests.operators.harness import Event, Table, random_history, undo, view_of

LEFT = Table(Schema.of(("k", INTEGER), ("v", INTEGER)), [[None, 1, 2, 3], [1, 2]])
RIGHT = Table(Schema.of(("k", INTEGER), ("w", TEXT)), [[None, 1, 2, 3], [None, "a", "b"]])
LOOKUP = "SELECT t0.k, v, t1.k AS rk, w FROM t0 {} t1 FOR SYSTEM_TIME AS OF PROCTIME() ON {}"
CONDITIONS = {
    "t0.k = t1.k": lambda a, b: a[0] is not None and a[0] == b[0],
    "t0.k = t1.k AND w = 'a'": lambda a, b: a[0] is not None and a[0] == b[0] and b[1] == "a",
    "v < t1.k": lambda a, b: b[0] is not None and a[1] < b[0],
    "t0.k + 1 = t1.k": lambda a, b: None not in (a[0], b[0]) and a[0] + 1 == b[0],
}


class Lookups:
    """What a lookup join has put out: by left row a queue of what it was put beside."""

    def __init__(self, condition: str, outer: bool) -> None:
        self.condition, self.outer = CONDITIONS[condition], outer
        self.right: Counter[tuple] = Counter()
        self.given: dict[tuple, list[Counter[tuple]]] = defaultdict(list)

    def step(self, events: list[Event]) -> None:
        net: Counter[tuple] = Counter()
        for relation, row, weight in events:
            if relation == 1:
                self.right[row] += weight
            else:
                net[row] += weight
        for row, weight in net.items():
            for _ in range(-weight):
                self.given[row].pop(0)
        for row, weight in net.items():
            for _ in range(weight):
                beside = Counter(
                    {r: n for r, n in self.right.items() if n and self.condition(row, r)}
                )
                if self.outer and not beside:
                    beside[None, None] = 1
                self.given[row].append(beside)

    @property
    def output(self) -> Counter[tuple]:
        out: Counter[tuple] = Counter()
        for row, queue in self.given.items():
            for beside in queue:
                out.update({(*row, *r): n for r, n in beside.items()})
        return out


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN"])
@pytest.mark.parametrize("seed", range(3))
def test_lookup_join_remembers_what_each_row_met(join: str, condition: str, seed: int) -> None:
    rng = random.Random(seed)
    view = view_of(LOOKUP.format(join, condition), [LEFT, RIGHT])
    model = Lookups(condition, join == "LEFT JOIN")
    history = random_history([LEFT, RIGHT], seed, ticks=10, most=8)
    for i, events in enumerate(history):
        if i == 5:
            view.restart()
        view.step(events)
        model.step(events)
        assert view.output == model.output
    for events in undo(history, rng):
        view.step(events)
    assert not view.output and not view.held()


def test_later_changes_of_the_right_side_change_nothing() -> None:
    view = view_of(LOOKUP.format("LEFT JOIN", "t0.k = t1.k"), [LEFT, RIGHT])
    view.at("""t1 + 1 a
               t0 + 1 5
               t0 + 2 5""").gives("""+ 1 5 1 a
                                     + 2 5 NULL NULL""")
    view.at("""t1 - 1 a
               t1 + 1 b""").gives("")
    view.at("t0 + 1 5").gives("+ 1 5 1 b")
    view.at("t0 - 1 5").gives("- 1 5 1 a")
    view.at("t0 - 1 5").gives("- 1 5 1 b")
    view.at("t0 - 2 5").gives("- 2 5 NULL NULL")


def test_left_rows_that_only_come_leave_no_state() -> None:
    left = Table(LEFT.schema, append_only=True)
    view = view_of(LOOKUP.format("JOIN", "t0.k = t1.k"), [left, RIGHT])
    view.step([(0, (1, i), 1) for i in range(1000)] + [(1, (1, "a"), 1)])
    assert sum(view.output.values()) == 1000
    assert view.state_rows() == 1
    assert view.compiled.append_only


@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN"])
def test_condition_that_fails_is_told_or_refused(join: str) -> None:
    sql = LOOKUP.format(join, "t0.k = t1.k AND 10 / v > 2")
    if join == "LEFT JOIN":
        with pytest.raises(FeatureNotSupported, match="may fail"):
            view_of(sql, [LEFT, RIGHT])
        return
    view = view_of(sql, [LEFT, RIGHT])
    view.at("""t1 + 1 a
               t0 + 1 0
               t0 + 1 2""").gives("+ 1 2 1 a")
    assert [e.sqlstate for e in view.errors] == ["22012"]
    view.at("t0 - 1 0").gives("")
    assert sum(e.weight for e in view.errors) == 0


# --- by event time ------------------------------------------------------------------------------
BASE = dt.datetime(2024, 6, 1, 10)


def at(seconds: int) -> dt.datetime:
    return BASE + dt.timedelta(seconds=seconds)


def tables(delay_s: int = 0, late_s: int = 0) -> list[Table]:
    left = Schema.of(("t", TIMESTAMP), ("k", INTEGER))
    right = Schema.of(("k", INTEGER), ("t", TIMESTAMP), ("w", INTEGER))
    more = {"watermark_delay_us": delay_s * 10**6, "lateness_us": late_s * 10**6}
    return [
        Table(left, watermark_column=0, **more),
        Table(right, watermark_column=1, unique_key=(0,), **more),
    ]


VERSIONED = "SELECT t0.t, t0.k, w FROM t0 {} t1 FOR SYSTEM_TIME AS OF t0.t ON t0.k = t1.k{}"


def random_events(rng: random.Random, n: int) -> list[list[Event]]:
    """Statements: rows of both sides, updates and deletes of the right side by key."""
    present: dict[int, tuple] = {}
    now, out = 0, []
    for _ in range(n):
        now += rng.randint(0, 3)
        key = rng.randint(1, 3)
        choice = rng.random()
        if choice < 0.5:
            out.append([(0, (at(now - rng.randint(0, 6)), rng.choice([None, 1, 2, 3])), 1)])
            continue
        events: list[Event] = []
        if key in present:
            events.append((1, present.pop(key), -1))
        if choice < 0.9 or not events:
            present[key] = (key, at(now - rng.randint(0, 6)), rng.randint(0, 9))
            events.append((1, present[key], 1))
        out.append(events)
    return out


def model_of(statements: list[list[Event]], delay_s: int, late_s: int, outer: bool, low: int):
    """The rows both watermarks have passed, each beside the last version that was not late."""
    first = at(-1000)
    watermark = [first, first]
    lateness = dt.timedelta(seconds=late_s)
    rows, versions = [], defaultdict(list)
    for number, events in enumerate(statements):
        updated = {row[0] for r, row, w in events if r == 1 and w > 0}
        start = list(watermark)
        for relation, row, weight in events:
            time = row[0] if relation == 0 else row[1]
            before = start[relation] if weight < 0 else watermark[relation]
            judged = min(before, start[1 - relation])
            late = judged > first + lateness and time < judged - lateness
            if relation == 0 and not late:
                rows.append(row)
            elif relation == 1 and weight < 0 and row[0] not in updated:
                versions[row[0]].append((max(time, before), number, None))
            elif relation == 1 and weight > 0 and not late:
                versions[row[0]].append((time, number, row[2]))
            if weight > 0:
                watermark[relation] = max(before, time - dt.timedelta(seconds=delay_s))
    out: Counter[tuple] = Counter()
    for t, k in rows:
        if t >= min(watermark) - lateness:
            continue
        begun = [v for v in versions[k] if v[0] <= t] if k is not None else []
        value = max(begun, key=lambda v: v[:2])[2] if begun else None
        if value is not None and value >= low:
            out[t, k, value] += 1
        elif outer:
            out[t, k, None] += 1
    return out


@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN"])
@pytest.mark.parametrize(
    ("delay_s", "late_s", "more"), [(0, 0, ""), (3, 0, " AND w > 2"), (2, 2, "")]
)
@pytest.mark.parametrize("seed", range(4))
def test_versions_are_those_of_the_row_s_own_time_however_ticks_are_cut(
    join: str, delay_s: int, late_s: int, more: str, seed: int
) -> None:
    rng = random.Random(seed)
    statements = random_events(rng, 60)
    expected = model_of(statements, delay_s, late_s, join == "LEFT JOIN", 3 if more else 0)
    assert expected
    one = view_of(VERSIONED.format(join, more), tables(delay_s, late_s))
    for i, events in enumerate(statements):
        if i == 30:
            one.restart()
        one.step(events)
    assert one.output == expected
    assert one.compiled.append_only


def test_update_goes_on_and_delete_ends_at_the_watermark() -> None:
    view = view_of(VERSIONED.format("LEFT JOIN", ""), tables())
    view.at("t1 + 1 10:00 5")
    view.at("""t1 - 1 10:00 5
               t1 + 1 10:10 6""")
    view.at("t1 - 1 10:10 6")
    view.at("t1 + 2 10:30 0")
    view.at("""t0 + 09:59 1
               t0 + 10:00 1
               t0 + 10:09 1
               t0 + 10:10 1
               t0 + 10:20 1""").gives("""+ 09:59 1 NULL
                                         + 10:00 1 5
                                         + 10:09 1 5
                                         + 10:10 1 NULL""")
    view.at("t0 + 10:40 1").gives("+ 10:20 1 NULL")


def test_late_rows_of_both_sides_are_told() -> None:
    view = view_of(VERSIONED.format("JOIN", ""), tables())
    view.at("""t1 + 1 10:10 6
               t1 + 1 10:05 5""")  # on time: the left side is behind it
    view.at("""t0 + 10:10 1
               t0 + 10:06 1""").gives("")
    assert [late.batch.num_rows for late in view.late] == [1]
    view.at("t1 + 1 10:07 7")
    assert [late.batch.num_rows for late in view.late] == [1, 1]


def test_version_behind_its_own_watermark_counts_while_the_other_side_lags() -> None:
    view = view_of(VERSIONED.format("JOIN", ""), tables())
    view.at("t0 + 10:10 1")
    view.at("t1 + 1 10:05 1")
    view.at("t1 + 2 10:20 2")
    view.at("""t1 - 1 10:05 1
               t1 + 1 10:12 3""")
    view.at("t0 + 10:19 1")
    view.at("t0 + 10:25 1")
    assert view.output == {(at(600), 1, 1): 1, (at(1140), 1, 3): 1}
    assert not view.late


def test_superseded_versions_are_freed() -> None:
    view = view_of(VERSIONED.format("JOIN", ""), tables())
    row = (1, at(0), 0)
    view.step([(1, row, 1)])
    for i in range(1, 300):
        new = (1, at(i), i)
        view.step([(1, row, -1), (1, new, 1), (0, (at(i), 1), 1)])
        row = new
    assert sum(view.output.values()) == 298
    assert view.state_rows() < 10


def test_explain_tells_temporal_joins() -> None:
    view = view_of(VERSIONED.format("LEFT JOIN", ""), tables())
    text = "\n".join(explain(view.compiled))
    assert text.startswith("Maintenance: incremental")
    assert "TemporalVersionLeftJoin: k = k; the version by t as of t" in text
    text = "\n".join(explain(view_of(LOOKUP.format("JOIN", "t0.k = t1.k"), [LEFT, RIGHT]).compiled))
    assert "TemporalJoin: k = k; as of the tick a left row comes in" in text


def test_windows_over_a_temporal_join_close_with_its_rows() -> None:
    sql = (
        "SELECT window_end, sum(w) FROM TUMBLE((SELECT t0.t, w FROM t0 JOIN t1 FOR SYSTEM_TIME "
        "AS OF t0.t ON t0.k = t1.k), t, INTERVAL '1 minute') GROUP BY window_end, window_start"
    )
    view = view_of(sql, tables(), Options(on_close=True))
    view.at("""t1 + 1 10:00 5
               t0 + 10:00:10 1
               t0 + 10:00:50 1
               t0 + 10:02 1""").gives("")
    view.at("t1 + 2 10:03 0").gives("+ 10:01 10")
