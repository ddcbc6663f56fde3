"""Comparison of columns of any type, with PostgreSQL's order: NaN above all, text by code point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.types import Kind
from streamsql.functions.compute import decimals
from streamsql.functions.compute.columns import Value, broadcast, from_bools, validity, values
from streamsql.functions.compute.intervals import interval_key
from streamsql.functions.definitions import KernelCall

_ARROW: dict[str, Callable[[Any, Any], Any]] = {
    "eq": pc.equal, "ne": pc.not_equal, "lt": pc.less, "le": pc.less_equal, "gt": pc.greater,
    "ge": pc.greater_equal,
}  # fmt: skip
_ON_ORDER: dict[str, Callable[[Any], Any]] = {
    "eq": lambda o: o == 0, "ne": lambda o: o != 0, "lt": lambda o: o < 0, "le": lambda o: o <= 0,
    "gt": lambda o: o > 0, "ge": lambda o: o >= 0,
}  # fmt: skip


def compare(name: str, call: KernelCall, a: Value, b: Value) -> Any:
    """The comparison `name` (eq, ne, lt, le, gt, ge) of two columns of comparable types."""
    kind = call.arg_types[0].kind
    if kind in (Kind.REAL, Kind.DOUBLE):
        return _floats(name, call, a, b)
    if kind is Kind.NUMERIC:
        if isinstance(b, pa.Scalar) and a.type != b.type:
            same = decimals.constant_as(b, a.type)
            b = b if same is None else same
        if a.type == b.type:
            return _ARROW[name](a, b)
        order = decimals.compare(a, b, call.num_rows)
        return from_bools(_ON_ORDER[name](order), validity(a, b))
    if kind is Kind.JSONB:
        from streamsql.functions.compute.json_order import sort_keys

        return _ARROW[name](*(sort_keys(broadcast(x, call.num_rows)) for x in (a, b)))
    if kind in (Kind.INTERVAL, Kind.ARRAY, Kind.STRUCT, Kind.MAP, Kind.JSONB):
        order = order_of(call, a, b)
        return from_bools(_ON_ORDER[name](order), validity(a, b))
    if kind is Kind.BOOLEAN:
        a, b = _byte(a), _byte(b)
    return _ARROW[name](a, b)


def _byte(value: Value) -> Value:
    return value.cast(pa.uint8())


def _has_nan(value: Value) -> bool:
    if isinstance(value, pa.Scalar):
        return value.as_py() != value.as_py()
    data = values(value)
    return bool(np.isnan(data).any())


def _floats(name: str, call: KernelCall, a: Value, b: Value) -> Any:
    if not _has_nan(a) and not _has_nan(b):
        return _ARROW[name](a, b)
    x = values(broadcast(a, call.num_rows))
    y = values(broadcast(b, call.num_rows))
    nx, ny = np.isnan(x), np.isnan(y)
    with np.errstate(invalid="ignore"):
        order = np.where(nx | ny, nx.astype(np.int8) - ny.astype(np.int8),
                         (x > y).astype(np.int8) - (x < y).astype(np.int8))  # fmt: skip
    return from_bools(_ON_ORDER[name](order), validity(a, b))


def order_of(call: KernelCall, a: Value, b: Value) -> Any:
    """int8 [n]: -1, 0, 1 of intervals and nested values; what lies under NULL does not matter."""
    n = call.num_rows
    x, y = broadcast(a, n), broadcast(b, n)
    t = call.arg_types[0]
    if t.kind is Kind.INTERVAL:
        (dx, ux), (dy, uy) = interval_key(x), interval_key(y)
        days = (dx > dy).astype(np.int8) - (dx < dy).astype(np.int8)
        us = (ux > uy).astype(np.int8) - (ux < uy).astype(np.int8)
        return np.where(days != 0, days, us)
    from streamsql.functions.compute.nested_order import sort_key

    out = np.zeros(n, np.int8)
    valid = np.ones(n, np.bool_)
    for v in (x, y):
        if v.null_count:
            valid &= np.asarray(v.is_valid())
    left, right = x.to_pylist(), y.to_pylist()
    for i in np.flatnonzero(valid):
        k, m = sort_key(left[i], t), sort_key(right[i], t)
        out[i] = (k > m) - (k < m)
    return out


def distinct_from(call: KernelCall, a: Value, b: Value) -> Any:
    """IS DISTINCT FROM: NULL is a value like others."""
    different = compare("ne", call, a, b)
    if isinstance(different, pa.Scalar):
        different = pa.repeat(different, call.num_rows)
    null_a, null_b = _nulls(a, call.num_rows), _nulls(b, call.num_rows)
    if not null_a.any() and not null_b.any():
        return different
    known = np.asarray(different.fill_null(False))
    return from_bools(np.where(null_a | null_b, null_a != null_b, known))


def _nulls(value: Value, n: int) -> Any:
    if isinstance(value, pa.Scalar):
        return np.full(n, not value.is_valid)
    return np.asarray(value.is_null()) if value.null_count else np.zeros(n, np.bool_)
