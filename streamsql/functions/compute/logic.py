"""Kernels of what looks at NULL: IS …, NULLIF, GREATEST, LEAST, IN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.types import BOOLEAN, Kind
from streamsql.functions.compute import comparisons
from streamsql.functions.compute.columns import (
    Value,
    broadcast,
    column,
    flat,
    from_bools,
    validity,
)
from streamsql.functions.definitions import KernelCall


def not_(call: KernelCall, a: Value) -> Any:
    """NOT."""
    return pc.invert(a)


def is_null(call: KernelCall, a: Value) -> Any:
    """IS NULL; of a struct as PostgreSQL: every field is NULL."""
    if call.arg_types[0].kind is Kind.STRUCT and isinstance(a, pa.Array):
        fields = from_bools(np.ones(len(a), np.bool_))
        for i in range(a.type.num_fields):
            fields = pc.and_(fields, a.field(i).is_null())
        return pc.or_(a.is_null(), fields)
    return pc.is_null(a)


def is_not_null(call: KernelCall, a: Value) -> Any:
    """IS NOT NULL; of a struct as PostgreSQL: no field is NULL."""
    if call.arg_types[0].kind is Kind.STRUCT and isinstance(a, pa.Array):
        result = a.is_valid()
        for i in range(a.type.num_fields):
            result = pc.and_(result, a.field(i).is_valid())
        return result
    return pc.is_valid(a)


def is_true(call: KernelCall, a: Value) -> Any:
    """IS TRUE."""
    return pc.fill_null(a, False)


def is_not_true(call: KernelCall, a: Value) -> Any:
    """IS NOT TRUE."""
    return pc.invert(pc.fill_null(a, False))


def is_false(call: KernelCall, a: Value) -> Any:
    """IS FALSE."""
    return pc.invert(pc.fill_null(a, True))


def is_not_false(call: KernelCall, a: Value) -> Any:
    """IS NOT FALSE."""
    return pc.fill_null(a, True)


def is_unknown(call: KernelCall, a: Value) -> Any:
    """IS UNKNOWN."""
    return pc.is_null(a)


def is_not_unknown(call: KernelCall, a: Value) -> Any:
    """IS NOT UNKNOWN."""
    return pc.is_valid(a)


def _compare(name: str, call: KernelCall, a: Value, b: Value) -> Any:
    inner = KernelCall(call.num_rows, BOOLEAN, (call.type, call.type))
    return comparisons.compare(name, inner, a, b)


def nullif(call: KernelCall, a: Value, b: Value) -> Any:
    """NULL where a = b, else a."""
    if isinstance(a, pa.Scalar) and not a.is_valid:
        return a
    if isinstance(b, pa.Scalar) and not b.is_valid:
        return a
    equal = pc.fill_null(_compare("eq", call, a, b), False)
    return pc.if_else(equal, pa.scalar(None, call.type.arrow), a)


def greatest(call: KernelCall, *args: Value) -> Any:
    """The largest argument that is not NULL."""
    return _extreme("gt", call, args)


def least(call: KernelCall, *args: Value) -> Any:
    """The smallest argument that is not NULL."""
    return _extreme("lt", call, args)


def _extreme(name: str, call: KernelCall, args: tuple[Value, ...]) -> Any:
    result: Value | None = None
    for a in args:
        if isinstance(a, pa.Scalar) and not a.is_valid:
            continue
        if result is None:
            result = a
            continue
        if isinstance(result, pa.Scalar) and isinstance(a, pa.Scalar):
            result = pa.repeat(result, call.num_rows)
        wins = pc.fill_null(_compare(name, call, a, result), False)
        take_new = pc.or_(wins, pc.is_null(result))
        keep_old = pc.and_(pc.is_null(a), pc.is_valid(result))
        result = flat(pc.if_else(pc.and_not(take_new, keep_old), a, result))
    return pa.scalar(None, call.type.arrow) if result is None else result


HASHABLE = frozenset({
    Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT, Kind.TEXT, Kind.VARCHAR, Kind.UUID, Kind.DATE,
    Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.BYTEA, Kind.NUMERIC,
})  # fmt: skip
"""Types whose equality is that of their stored bytes."""


def in_(call: KernelCall, a: Value, *items: Value) -> Any:
    """a IN (items), with NULL's rules: unknown if nothing equals and a NULL is among them."""
    t = call.arg_types[0]
    column = broadcast(a, call.num_rows)
    result: Any = from_bools(np.zeros(call.num_rows, np.bool_))
    for item in items:
        if isinstance(item, pa.Scalar) and not item.is_valid:
            equal: Any = pa.scalar(None, pa.bool_())
        else:
            inner = KernelCall(call.num_rows, BOOLEAN, (t, t))
            equal = comparisons.compare("eq", inner, column, item)
        result = pc.or_kleene(result, equal)
    return result


def num_nulls(call: KernelCall, *args: Value) -> Any:
    """How many of the arguments are NULL."""
    total = np.zeros(call.num_rows, np.int32)
    for a in args:
        total += _missing(a)
    return column(total, pa.int32())


def num_nonnulls(call: KernelCall, *args: Value) -> Any:
    """How many of the arguments are not NULL."""
    total = np.full(call.num_rows, len(args), np.int32)
    for a in args:
        total -= _missing(a)
    return column(total, pa.int32())


def _missing(a: Value) -> Any:
    return (
        int(not a.is_valid) if isinstance(a, pa.Scalar) else np.asarray(a.is_null()).view(np.int8)
    )


def array_num_nulls(call: KernelCall, a: Value) -> Any:
    """num_nulls(VARIADIC array): how many of its elements are NULL."""
    lists = broadcast(a, call.num_rows)
    items = lists.flatten()
    rows = np.asarray(pc.list_parent_indices(lists))[np.asarray(items.is_null())]
    total = np.bincount(rows, minlength=len(lists)).astype(np.int32)
    return column(total, pa.int32(), validity(lists))
