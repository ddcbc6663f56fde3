"""How the loops of this room are compiled: one machine signature each."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from streamsql.kernels.jit import kernel


def loop(*inputs: int) -> Callable[[Callable[..., Any]], Any]:
    """Decorator: a compiled, cached loop whose array arguments at `inputs` are only read.

    Arrow's memory is read-only and numpy's is not, and numba would compile the loop for each
    mixture.
    Here all inputs are read-only views.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        compiled = kernel(function)

        @wraps(function)
        def call(*args: Any) -> Any:
            given = list(args)
            for i in inputs:
                array = given[i]
                if array.flags.writeable:
                    array = array.view()
                    array.flags.writeable = False
                    given[i] = array
            return compiled(*given)

        return call

    return decorate
