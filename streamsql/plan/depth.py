"""Statements that nest too deeply end in an error of the statement, not of the engine."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from streamsql.core.errors import StatementTooComplex

P = ParamSpec("P")
R = TypeVar("R")


def limited_depth(function: Callable[P, R]) -> Callable[P, R]:
    """Turn Python's RecursionError into StatementTooComplex (54001)."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except RecursionError:
            raise StatementTooComplex(
                "stack depth limit exceeded",
                hint="Split the statement: shorter expressions, fewer nested queries.",
            ) from None

    return run
