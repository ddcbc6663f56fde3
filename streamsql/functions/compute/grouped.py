"""Kernels whose patterns, formats and units are constants: rows are grouped by them when they
vary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np
import pyarrow as pa

from streamsql.functions.compute.columns import broadcast, column, flat, valid_mask
from streamsql.functions.definitions import Failure, Kernel, KernelCall


def constants(*positions: int) -> Callable[[Kernel], Kernel]:
    """Decorator: the arguments at `positions` always reach the kernel as scalars.

    A column there is split by its distinct values, the kernel runs once for each, and the results
    are put back in order. NULL patterns reach non-strict kernels only as rows of a scalar NULL.
    """

    def decorate(kernel: Kernel) -> Kernel:
        @wraps(kernel)
        def call(info: KernelCall, *args: Any) -> Any:
            varying = [i for i in positions if i < len(args) and isinstance(args[i], pa.Array)]
            if not varying:
                return kernel(info, *args)
            return _grouped(kernel, info, args, varying, positions)

        return call

    return decorate


def _codes(args: Sequence[Any], varying: Sequence[int]) -> Any:
    """int64 [n]: a number for each distinct combination of the varying arguments."""
    total: Any = None
    for i in varying:
        encoded = flat(args[i].dictionary_encode(null_encoding="encode"))
        codes = np.asarray(encoded.indices).astype(np.int64)
        total = codes if total is None else total * len(encoded.dictionary) + codes
    return total


def _grouped(
    kernel: Kernel,
    info: KernelCall,
    args: Sequence[Any],
    varying: Sequence[int],
    positions: Sequence[int],
) -> Any:
    codes = _codes(args, varying)
    distinct, inverse = np.unique(codes, return_inverse=True)
    if len(distinct) == 1:
        fixed = [a[0] if i in varying else a for i, a in enumerate(args)]
        return _call(kernel, info, fixed, positions)
    order = np.argsort(inverse, kind="stable")
    bounds = np.searchsorted(inverse[order], np.arange(len(distinct) + 1))
    parts = []
    for g in range(len(distinct)):
        rows = order[bounds[g] : bounds[g + 1]]
        at = column(rows.astype(np.int64), pa.int64())
        fixed = [
            a[int(rows[0])] if i in varying else (a.take(at) if isinstance(a, pa.Array) else a)
            for i, a in enumerate(args)
        ]
        inner = KernelCall(len(rows), info.type, info.arg_types, info.now_us, info.timezone)
        parts.append(broadcast(_call(kernel, inner, fixed, positions), len(rows)))
        for failure in inner.failures:
            info.failures.append(_moved(failure, rows, info.num_rows))
    back = np.empty(info.num_rows, np.int64)
    back[order] = np.arange(info.num_rows)
    return pa.concat_arrays(parts).take(column(back, pa.int64()))


def _call(kernel: Kernel, info: KernelCall, args: Sequence[Any], positions: Sequence[int]) -> Any:
    """The kernel over at least one column, where it takes one."""
    if not any(isinstance(a, pa.Array) for a in args):
        free = next((i for i in range(len(args)) if i not in positions), None)
        args = [pa.repeat(a, info.num_rows) if i == free else a for i, a in enumerate(args)]
    fixed = [args[i] for i in positions if i < len(args)]
    if any(isinstance(a, pa.Scalar) and not a.is_valid for a in fixed):
        return pa.scalar(None, info.type.arrow)
    return flat(kernel(info, *args))


def _moved(failure: Failure, rows: Any, n: int) -> Failure:
    bad = np.zeros(n, np.bool_)
    local = failure.rows
    if local is True:
        bad[rows] = True
        return Failure(bad, failure.error, failure.message, failure.detail)
    mask = np.asarray(local.fill_null(False)) if isinstance(local, pa.Array) else local
    bad[rows[mask]] = True
    place = {int(r): i for i, r in enumerate(rows)}
    return Failure(bad, failure.error, lambda row: failure.text(place[row]), failure.detail)


def by_value(array: pa.Array, fn: Callable[[Any], Any], t: pa.DataType) -> pa.Array:
    """fn of each distinct value, spread over the column; NULL stays NULL. fn may return None."""
    encoded = flat(array.dictionary_encode())
    results = [None if v is None else fn(v) for v in encoded.dictionary.to_pylist()]
    return pa.array(results, t).take(encoded.indices)


def by_value_failing(
    call: KernelCall, array: pa.Array, fn: Callable[[Any], Any], t: pa.DataType
) -> pa.Array:
    """As `by_value`; a StreamSqlError of fn fails the rows with that value."""
    from streamsql.core.errors import StreamSqlError

    encoded = flat(array.dictionary_encode())
    results: list[Any] = []
    bad: dict[int, StreamSqlError] = {}
    for i, v in enumerate(encoded.dictionary.to_pylist()):
        try:
            results.append(None if v is None else fn(v))
        except StreamSqlError as e:
            results.append(None)
            bad[i] = e
    if bad:
        codes = np.asarray(encoded.indices.fill_null(-1))
        for cls in {type(e) for e in bad.values()}:
            ours = {i: e for i, e in bad.items() if type(e) is cls}
            rows = np.isin(codes, list(ours))
            call.fail(rows, cls, lambda row, ours=ours: ours[int(codes[row])].message)  # type: ignore[misc]
    return pa.array(results, t).take(encoded.indices)


def all_valid(*arrays: Any) -> Any:
    """bool [n] rows in which every column has a value; None if all have."""
    found: Any = None
    for a in arrays:
        mask = valid_mask(a) if isinstance(a, pa.Array) else None
        if mask is not None:
            found = mask if found is None else found & mask
    return found
