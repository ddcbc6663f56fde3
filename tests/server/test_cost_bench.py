"""`streamsql bench --only cost`: every case is a view that measures, and closed windows hold nothing."""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
from collections.abc import Iterator

import pytest
from streamsql_server.benchmark import closing, cost
from streamsql_server.benchmark.closing import WINDOWED
from streamsql_server.benchmark.cost_cases_ordered import CASES

import streamsql
from streamsql import operators
from streamsql.circuit.operator import Operator
from streamsql.connectors import registry

DEEP = "STREAMSQL_DEEP" in os.environ
SHOWN = list(WINDOWED) if DEEP else [
    "window join", "session on close", "hold-back", "over distinct", "over except",
]  # fmt: skip
STATELESS = {"Constant"}  # its state is whether it has given its rows out


def _kinds(of: type[Operator]) -> Iterator[type[Operator]]:
    for kind in of.__subclasses__():
        yield kind
        yield from _kinds(kind)


@pytest.mark.deep
@pytest.mark.skipif(not DEEP, reason="only with make test-deep")
def test_every_operator_with_state_has_a_case_and_every_case_can_be_a_view() -> None:
    for module in pkgutil.iter_modules(operators.__path__):
        importlib.import_module(f"{operators.__name__}.{module.name}")
    stateful = {
        kind.__name__
        for kind in _kinds(Operator)
        if kind.__module__.startswith(operators.__name__) and kind.save is not Operator.save
    }
    met = set()
    for case in CASES:
        with streamsql.connect() as db:
            cost.make(db, case)
            met |= {type(o).__name__ for o in gc.get_objects() if isinstance(o, Operator)}
    assert stateful - STATELESS - met == set()


def test_no_case_is_there_twice() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    assert len({(case.sql, case.changes, case.append_only) for case in CASES}) == len(CASES)


@pytest.mark.parametrize("name", ["inner join, both sides", "temporal join, versions"])
def test_a_case_is_measured(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "DELTA", 20)
    monkeypatch.setattr(cost, "TICKS", 2)
    monkeypatch.setattr(cost.gc, "freeze", lambda: None)
    case = next(c for c in CASES if c.name == name)
    found = cost.measure(case, 200)
    assert found["rows"] == 200
    assert found["insert_ms"] > 0
    assert ("delete_ms" in found) is not case.rising
    assert all(found[part] > 0 for part in cost.PARTS if part in found)


@pytest.mark.parametrize("name", SHOWN)
def test_closed_windows_hold_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closing, "WINDOWS", 30)
    monkeypatch.setattr(closing, "MARKS", (10, 30))
    monkeypatch.setattr(closing, "ROWS", 150)
    monkeypatch.setattr(registry, "SOURCES", dict(registry.SOURCES))  # its own source goes again
    first, last = closing.measure_windows(name)["state_rows"]
    assert last <= first * 1.6 + 10
