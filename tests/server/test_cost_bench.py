"""`streamsql bench --only cost`: every case is a view that measures, and closed windows hold nothing."""

from __future__ import annotations

import os

import pytest
from streamsql_server.benchmark import closing, cost
from streamsql_server.benchmark.closing import WINDOWED
from streamsql_server.benchmark.cost_cases import CASES

import streamsql
from streamsql.connectors import registry

DEEP = "STREAMSQL_DEEP" in os.environ
SHOWN = list(WINDOWED) if DEEP else ["window join", "session on close", "hold-back"]


@pytest.mark.deep
@pytest.mark.skipif(not DEEP, reason="only with make test-deep")
def test_all_cases_can_be_views() -> None:
    assert len({c.name for c in CASES}) == len(CASES)
    with streamsql.connect() as db:
        for table in ("a", "b"):
            db.execute(f"CREATE TABLE {table} ({cost.COLUMNS})")
        for number, case in enumerate(CASES):
            db.execute(f"CREATE MATERIALIZED VIEW m{number} AS {case.sql}")


def test_a_case_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "DELTA", 20)
    monkeypatch.setattr(cost, "TICKS", 2)
    monkeypatch.setattr(cost.gc, "freeze", lambda: None)
    case = next(c for c in CASES if c.name == "inner join")
    found = cost.measure(case, 200)
    assert found["rows"] == 200
    assert found["insert_ms"] > 0
    assert found["delete_ms"] > 0


@pytest.mark.parametrize("name", SHOWN)
def test_closed_windows_hold_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closing, "WINDOWS", 30)
    monkeypatch.setattr(closing, "MARKS", (10, 30))
    monkeypatch.setattr(closing, "ROWS", 150)
    monkeypatch.setattr(registry, "SOURCES", dict(registry.SOURCES))  # its own source goes again
    first, last = closing.measure_windows(name)["state_rows"]
    assert last <= first * 1.6 + 10
