"""Joins of windows: a thousand of them leave flat memory, whatever the join."""

from __future__ import annotations

import datetime as dt

import pytest

from streamsql.core.schema import Schema
from streamsql.core.types import INTEGER, TIMESTAMP
from streamsql.operators import Options
from tests.operators.harness import Event, Table, View, view_of

BASE = dt.datetime(2024, 6, 1)
SCHEMA = Schema.of(("ts", TIMESTAMP), ("k", INTEGER), ("v", INTEGER))
TIMED = Table(SCHEMA, append_only=True, watermark_column=0, watermark_delay_us=5_000_000)
SIDE = "TUMBLE({}, ts, INTERVAL '10 seconds') {}"
PAIR = "a.window_end = b.window_end AND a.k = b.k"


def two(join: str, more: str = "") -> str:
    left, right = SIDE.format("t0", "a"), SIDE.format("t1", "b")
    return f"SELECT a.window_end, a.k, b.v FROM {left} {join} {right} ON {PAIR}{more}"


THREE = (
    f"SELECT a.window_end, a.k, b.v, c.v FROM {SIDE.format('t0', 'a')} {{}} "
    f"{SIDE.format('t1', 'b')} ON {PAIR} {{}} {SIDE.format('t2', 'c')} "
    "ON c.window_end = a.window_end AND c.k = a.k"
)
QUERIES = {
    "inner": two("JOIN"),
    "left": two("LEFT JOIN"),
    "right": two("RIGHT JOIN"),
    "full": two("FULL JOIN"),
    "left with a condition": two("LEFT JOIN", " AND a.v <= b.v"),
    "full with a condition": two("FULL JOIN", " AND a.v <= b.v"),
    "exists": f"SELECT a.window_end, a.k FROM {SIDE.format('t0', 'a')} WHERE EXISTS "
    f"(SELECT 1 FROM {SIDE.format('t1', 'b')} WHERE {PAIR})",
    "three": THREE.format("JOIN", "JOIN"),
    "three, left": THREE.format("LEFT JOIN", "LEFT JOIN"),
    "three, full": THREE.format("FULL JOIN", "LEFT JOIN"),
}


def windows(first: int, count: int) -> list[Event]:
    """Rows of some windows; of every seventh window one relation has none."""
    return [
        (relation, (BASE + dt.timedelta(seconds=10 * w + j), j, relation), 1)
        for w in range(first, first + count)
        for j in range(4)
        for relation in range(3)
        if w % 7 != relation
    ]


def held(view: View) -> tuple[int, int]:
    return view.state_rows(), sum(n.operator.state_bytes() for n in view.circuit)


@pytest.mark.parametrize(
    ("name", "on_close"),
    [(name, False) for name in QUERIES] + [(name, True) for name in ("left", "three, full")],
)
def test_a_thousand_windows_leave_flat_memory(name: str, on_close: bool) -> None:
    view = view_of(QUERIES[name], [TIMED] * 3, Options(on_close=on_close))
    view.checks = None
    seen = []
    for first in range(0, 1000, 50):
        view.step(windows(first, 50))
        if first in (450, 950):
            view.restart()
            seen.append(held(view))
    assert view.compiled.maintenance == "incremental"
    assert sum(view.output.values()) > 2000
    # arrangements look for closed windows when their rows have doubled, from 1024 on
    assert seen[1][0] < 2100 * sum(n.operator.state_rows() > 0 for n in view.circuit)
    assert seen[1][0] <= 1.3 * seen[0][0] + 100
    assert seen[1][1] <= 1.5 * seen[0][1]


@pytest.mark.parametrize("name", QUERIES)
def test_what_is_freed_changes_no_answer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = view_of(QUERIES[name], [TIMED] * 3)
    for first in range(0, 40, 2):
        whole.step(windows(first, 2))
    for module in ("arrange", "condition_join"):
        monkeypatch.setattr(f"streamsql.operators.{module}.FREE_FROM", 1)
    view = view_of(QUERIES[name], [TIMED] * 3)
    for node in view.circuit:
        if hasattr(node.operator, "_kept"):
            node.operator._kept = 1
    for first in range(0, 40, 2):
        view.step(windows(first, 2))
    assert view.output == whole.output
    assert view.state_rows() < whole.state_rows() / 2
