"""All functions, operators, aggregates, window and set-returning functions, by name.

The tuples are ordered; lookups keep that order among overloads. Adding a function is one entry in
its family's file; adding a family is one line here.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from typing import TypeVar

from streamsql.core.errors import InvariantViolation
from streamsql.core.types import SqlType
from streamsql.functions.aggregates import AGGREGATES
from streamsql.functions.definitions import (
    AggregateDef,
    Definition,
    FunctionDef,
    SetReturningDef,
    WindowDef,
)
from streamsql.functions.overloads import select_overload
from streamsql.functions.scalar import FUNCTIONS
from streamsql.functions.set_returning import SET_RETURNING
from streamsql.functions.window import WINDOWS

D = TypeVar("D", bound=Definition)


def _by_name(definitions: Iterable[D], *, with_aliases: bool) -> dict[str, tuple[D, ...]]:
    found: dict[str, list[D]] = {}
    for d in definitions:
        for name in (d.name, *(d.aliases if with_aliases else ())):
            found.setdefault(name, []).append(d)
    return {name: tuple(ds) for name, ds in found.items()}


@cache
def functions() -> dict[str, tuple[FunctionDef, ...]]:
    """SQL name or operator -> overloads."""
    return _by_name((d for d in FUNCTIONS if not d.internal), with_aliases=True)


@cache
def functions_by_own_name() -> dict[str, tuple[FunctionDef, ...]]:
    """`Call.function` -> overloads."""
    return _by_name(FUNCTIONS, with_aliases=False)


@cache
def aggregates() -> dict[str, tuple[AggregateDef, ...]]:
    """SQL name -> overloads."""
    return _by_name(AGGREGATES, with_aliases=True)


@cache
def windows() -> dict[str, tuple[WindowDef, ...]]:
    """SQL name -> overloads."""
    return _by_name(WINDOWS, with_aliases=True)


@cache
def set_returning() -> dict[str, tuple[SetReturningDef, ...]]:
    """SQL name -> overloads."""
    return _by_name(SET_RETURNING, with_aliases=True)


@lru_cache(maxsize=8192)
def definition_of(function: str, types: tuple[SqlType, ...]) -> FunctionDef:
    """The overload a resolved Call means, by its registry name and argument types.

    Raises: InvariantViolation if there is none: the Call did not come from `resolve`.
    """
    found = select_overload(functions_by_own_name().get(function, ()), types)
    if isinstance(found, list):
        if not found:
            shown = ", ".join(map(str, types))
            raise InvariantViolation(f"no definition for call {function}({shown})")
        return found[0]
    return found


@lru_cache(maxsize=1024)
def aggregate_of(function: str, types: tuple[SqlType, ...]) -> AggregateDef:
    """The overload of a resolved AggregateCall (ordered-set: direct arguments, then the sorted
    one).

    Raises: InvariantViolation if there is none.
    """
    found = select_overload(aggregates().get(function, ()), types)
    if isinstance(found, list):
        if not found:
            shown = ", ".join(map(str, types))
            raise InvariantViolation(f"no definition for aggregate {function}({shown})")
        return found[0]
    return found


@lru_cache(maxsize=1024)
def window_of(function: str, types: tuple[SqlType, ...]) -> WindowDef | None:
    """The overload of a window-only function, or None for another name."""
    found = select_overload(windows().get(function, ()), types)
    if isinstance(found, list):
        return found[0] if found else None
    return found
