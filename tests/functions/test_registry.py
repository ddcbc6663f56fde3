"""What every entry of the registries promises."""

from __future__ import annotations

from importlib import import_module

import pytest

from streamsql.functions import registry
from streamsql.functions.aggregates import AGGREGATES
from streamsql.functions.definitions import FunctionDef
from streamsql.functions.scalar import FUNCTIONS
from streamsql.functions.set_returning import SET_RETURNING
from streamsql.functions.window import WINDOWS

BY_EVALUATOR = {"and", "or", "coalesce", "if"}


def _signature(d: FunctionDef) -> tuple[object, ...]:
    return (d.name, d.args, d.variadic)


def test_every_function_has_sql_or_a_kernel_that_exists() -> None:
    for d in FUNCTIONS:
        assert d.sql is not None or d.kernel is not None, d.name
        target = getattr(d.kernel, "target", None)
        if target is not None:
            module, name = target
            found = import_module(f"streamsql.functions.compute.{module}")
            assert callable(getattr(found, name, None)), (d.name, target)


def test_no_overload_is_listed_twice() -> None:
    seen: set[tuple[object, ...]] = set()
    for d in FUNCTIONS:
        assert _signature(d) not in seen, d
        seen.add(_signature(d))


def test_only_functions_without_a_pure_form_lack_a_kernel() -> None:
    lacking = {d.name for d in FUNCTIONS if d.kernel is None} - BY_EVALUATOR
    assert lacking == {
        "clock_timestamp", "e", "gen_random_uuid", "md5", "pi", "random", "sha256", "uuid",
        "version",
    }  # fmt: skip


def test_set_returning_functions_name_their_array_functions() -> None:
    for d in SET_RETURNING:
        assert d.arrays, d.name
        for name in d.arrays:
            assert name in registry.functions_by_own_name(), (d.name, name)


def test_aggregate_metadata_is_consistent() -> None:
    for d in AGGREGATES:
        assert d.incremental in ("linear", "min_max", None), d.name
        assert bool(d.accumulator) == (d.incremental is not None), d.name
        assert d.sql, d.name
    counts = {d.name for d in AGGREGATES if d.empty == "0"}
    assert counts == {"count_star", "count", "approx_count_distinct", "regr_count"}


def test_names_do_not_clash_between_kinds() -> None:
    scalar, aggregate = set(registry.functions()), set(registry.aggregates())
    window, sets = set(registry.windows()), set(registry.set_returning())
    # bit_and(a, b) is the operator's name, bit_and(x) the aggregate; first_value is both on purpose
    assert scalar & aggregate == {"bit_and", "bit_or", "bit_xor"}
    assert window & aggregate == {"first_value", "last_value"}
    assert not scalar & window and not scalar & sets and not aggregate & sets
    assert len(WINDOWS) >= 15


@pytest.mark.parametrize("name", ["+", "-", "*", "/", "%", "||", "->", "->>", "@>", "~", "like"])
def test_operators_are_found_by_their_symbol(name: str) -> None:
    from streamsql.functions.special import SPECIAL

    assert name in registry.functions() or name in SPECIAL
