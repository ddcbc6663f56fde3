"""Picking each row from one of several columns: the core of CASE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.functions.compute.columns import (
    Value,
    column,
    dtype_of,
    flat,
    from_bools,
    valid_mask,
    validity_from,
    values,
)


def select_rows(choice: npt.NDArray[Any], results: Sequence[Value], t: pa.DataType) -> pa.Array:
    """Row i of `results[choice[i]]`. choice: int [n] into results; scalars are constants."""
    if all(isinstance(r, pa.Scalar) for r in results):
        return _from_constants(choice, results, t)
    if pa.types.is_primitive(t) and not pa.types.is_boolean(t) and not pa.types.is_decimal(t):
        return _fixed_width(choice, results, t)
    if pa.types.is_nested(t) or pa.types.is_interval(t):
        return _by_masks(choice, results, t)
    index = choice if choice.dtype == np.int8 else choice.astype(np.int64)
    if len(results) == 2:
        return flat(pc.if_else(from_bools(choice == 0), results[0], results[1]))
    arrow_index = column(index.astype(np.int64), pa.int64())
    return flat(pc.choose(arrow_index, *results))


def select_first(
    conditions: Sequence[Value], results: Sequence[Value], t: pa.DataType, n: int
) -> Value:
    """results[i] of the first condition that is true, the last result without one. n: rows."""
    picked: list[tuple[Value, Value]] = []
    last = results[-1]
    for condition, result in zip(conditions, results, strict=False):
        if isinstance(condition, pa.Scalar):
            if condition.is_valid and condition.as_py():
                last = result  # always true: nothing behind it is reached
                break
            continue
        held = condition.fill_null(False) if condition.null_count else condition
        picked.append((held, result))
    if not picked:
        return last
    if pa.types.is_primitive(t) or pa.types.is_decimal(t):
        for held, result in reversed(picked):
            last = pc.if_else(held, result, last)
        return flat(last)
    parts = [r for _, r in picked] + [last]
    code: Value = pa.scalar(len(picked), pa.int8() if len(parts) < 128 else pa.int32())
    for i, (held, _) in reversed(list(enumerate(picked))):
        code = pc.if_else(held, pa.scalar(i, code.type), code)
    if all(isinstance(r, pa.Scalar) for r in parts):
        pieces = [pa.repeat(r, 1) for r in parts]
        return pa.concat_arrays(pieces).take(code)
    if len(parts) == 2 and not pa.types.is_nested(t):
        return flat(pc.if_else(picked[0][0], parts[0], parts[1]))
    return select_rows(np.asarray(code), parts, t)


def _from_constants(
    choice: npt.NDArray[Any], results: Sequence[pa.Scalar], t: pa.DataType
) -> pa.Array:
    pieces = [pa.repeat(r, 1) if r.is_valid else pa.nulls(1, t) for r in results]
    index = choice if choice.dtype != np.int64 else choice.astype(np.int32)
    return pa.concat_arrays(pieces).take(column(index, pa.from_numpy_dtype(index.dtype)))


def _fixed_width(choice: npt.NDArray[Any], results: Sequence[Value], t: pa.DataType) -> pa.Array:
    """Numbers and times: one masked copy for each part."""
    out = np.zeros(len(choice), dtype_of(t))
    valid: npt.NDArray[np.bool_] | None = None
    for i, r in enumerate(results):
        rows = choice == i
        if isinstance(r, pa.Scalar):
            missing = None if r.is_valid else rows
            if r.is_valid:
                out[rows] = _number(r)
        else:
            np.copyto(out, values(r), where=rows)
            mask = valid_mask(r)
            missing = None if mask is None else rows & ~mask
        if missing is not None:
            valid = ~missing if valid is None else valid & ~missing
    return column(out, t, validity_from(valid))


def _number(scalar: pa.Scalar) -> Any:
    return values(pa.repeat(scalar, 1))[0]


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
