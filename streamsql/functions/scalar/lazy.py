"""Kernels that import their module at the first call: binding SQL must not load numba."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from streamsql.functions.definitions import Kernel


def lazy(module: str, name: str) -> Kernel:
    """The kernel `name` of `streamsql.functions.compute.<module>`."""
    found: Any = None

    def call(*args: Any) -> Any:
        nonlocal found
        if found is None:
            found = getattr(import_module(f"streamsql.functions.compute.{module}"), name)
        return found(*args)

    call.__name__ = name
    call.target = (module, name)  # type: ignore[attr-defined]  # tests look it up
    return call
