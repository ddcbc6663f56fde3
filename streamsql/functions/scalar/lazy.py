"""Kernels that import their module at the first call: binding SQL must not load numba."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from streamsql.functions.definitions import Kernel

if TYPE_CHECKING:  # what is loaded by name below, for whoever follows imports
    from streamsql.functions.compute import (  # noqa: F401
        arrays,
        assignments,
        binary,
        construction,
        datetimes,
        decimals,
        degrees,
        exact_sums,
        extracts,
        flink,
        formatting,
        integers,
        interval_arithmetic,
        interval_lists,
        json_building,
        json_edits,
        json_keys,
        json_order,
        jsons,
        logic,
        maths,
        moments,
        patterns,
        products,
        quoting,
        regex_places,
        series,
        text_arrays,
        texts,
        unicode_texts,
    )


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
