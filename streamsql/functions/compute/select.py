"""Picking each row from one of several columns: the core of CASE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.functions.compute.columns import Value, column, flat, from_bools


def select_rows(choice: npt.NDArray[Any], results: Sequence[Value], t: pa.DataType) -> pa.Array:
    """Row i of `results[choice[i]]`. choice: int [n] into results; scalars are constants."""
    if all(isinstance(r, pa.Scalar) for r in results):
        return _from_constants(choice, results, t)
    if pa.types.is_nested(t) or pa.types.is_interval(t):
        return _by_masks(choice, results, t)
    index = choice if choice.dtype == np.int8 else choice.astype(np.int64)
    if len(results) == 2:
        return flat(pc.if_else(from_bools(choice == 0), results[0], results[1]))
    arrow_index = column(index.astype(np.int64), pa.int64())
    return flat(pc.choose(arrow_index, *results))


def _from_constants(
    choice: npt.NDArray[Any], results: Sequence[pa.Scalar], t: pa.DataType
) -> pa.Array:
    pieces = [pa.repeat(r, 1) if r.is_valid else pa.nulls(1, t) for r in results]
    index = choice if choice.dtype != np.int64 else choice.astype(np.int32)
    return pa.concat_arrays(pieces).take(column(index, pa.from_numpy_dtype(index.dtype)))


def _by_masks(choice: npt.NDArray[Any], results: Sequence[Value], t: pa.DataType) -> pa.Array:
    """For types `choose` does not know: rows of each part, taken from one concatenation."""
    n = len(choice)
    parts: list[pa.Array] = []
    base = np.zeros(len(results), np.int64)
    step = np.ones(len(results), np.int64)
    length = 0
    for i, r in enumerate(results):
        part = r if isinstance(r, pa.Array) else pa.repeat(r, 1)
        base[i] = length
        step[i] = isinstance(r, pa.Array)
        length += len(part)
        parts.append(part)
    rows = base[choice] + np.arange(n) * step[choice]
    return pa.concat_arrays(parts).take(column(rows, pa.int64()))
