"""Kernels of arrays, structs and maps; subscripts count from 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.errors import (
    ArraySubscriptError,
    FeatureNotSupported,
    NullValueNotAllowed,
    ProgramLimitExceeded,
)
from streamsql.core.types import BOOLEAN, Kind, SqlType
from streamsql.functions.compute import comparisons
from streamsql.functions.compute.columns import (
    Value,
    broadcast,
    column,
    flat,
    from_bools,
    valid_mask,
    validity,
    validity_from,
    values,
)
from streamsql.functions.definitions import KernelCall


def lengths_of(a: pa.Array) -> Any:
    """Elements of each list, 0 for NULL. int64 [n]"""
    return values(flat(pc.fill_null(pc.list_value_length(a), 0))).astype(np.int64)


def starts_of(a: pa.Array) -> Any:
    """Position of each list's first element in `a.values`. int64 [n]"""
    return values(a.offsets)[:-1].astype(np.int64)


def make_lists(
    t: pa.DataType, lengths: Any, items: pa.Array, valid: pa.Buffer | None = None
) -> pa.Array:
    """A list column over items laid one after the other."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    if items.type != t.value_type:
        items = items.cast(t.value_type)
    return pa.ListArray.from_buffers(
        t, len(lengths), [valid, pa.py_buffer(offsets)], children=[items]
    )


def array(call: KernelCall, *args: Value) -> Any:
    """ARRAY[a, b, …]."""
    n, m = call.num_rows, len(args)
    t = call.type.arrow
    if not m:
        return make_lists(t, np.zeros(n, np.int64), pa.array([], t.value_type))
    stacked = pa.concat_arrays([broadcast(a, n) for a in args])
    order = (np.arange(n)[:, None] + np.arange(m)[None, :] * n).reshape(-1)
    return make_lists(t, np.full(n, m), stacked.take(column(order, pa.int64())))


def row(call: KernelCall, *args: Value) -> Any:
    """ROW(a, b, …)."""
    children = [broadcast(a, call.num_rows) for a in args]
    return pa.StructArray.from_buffers(call.type.arrow, call.num_rows, [None], children=children)


def field(call: KernelCall, a: Value, name: pa.Scalar) -> Any:
    """(struct).name"""
    constant = name if isinstance(name, pa.Scalar) else name[0]
    index = [n for n, _ in call.arg_types[0].fields].index(constant.as_py())
    return pc.struct_field(broadcast(a, call.num_rows), [index])


def map_(call: KernelCall, *args: Value) -> Any:
    """MAP {k: v, …}."""
    n, m = call.num_rows, len(args) // 2
    t = call.type.arrow
    order = column((np.arange(n)[:, None] + np.arange(m)[None, :] * n).reshape(-1), pa.int64())
    keys = pa.concat_arrays([broadcast(a, n) for a in args[::2]]).take(order)
    items = pa.concat_arrays([broadcast(a, n) for a in args[1::2]]).take(order)
    pairs = pa.StructArray.from_arrays([keys, items], fields=[t.key_field, t.item_field])
    offsets = np.arange(0, n * m + 1, m, dtype=np.int32) if m else np.zeros(n + 1, np.int32)
    return pa.MapArray.from_buffers(t, n, [None, pa.py_buffer(offsets)], children=[pairs])


def map_get(call: KernelCall, a: Value, key: Value) -> Any:
    """map[key]; NULL if there is none."""
    m = broadcast(a, call.num_rows)
    if isinstance(key, pa.Scalar):
        return pc.map_lookup(m, query_key=key, occurrence="first")
    rows = zip(m.to_pylist(), key.to_pylist(), strict=True)
    found = [None if d is None or k is None else dict(d).get(k) for d, k in rows]
    return pa.array(found, call.type.arrow)


def map_keys(call: KernelCall, a: pa.Array) -> Any:
    """The keys as an array."""
    offsets = values(a.offsets)
    lengths = np.where(valid_rows(a), np.diff(offsets), 0)
    return make_lists(call.type.arrow, lengths, _inside(a, a.keys), validity(a))


def map_values(call: KernelCall, a: pa.Array) -> Any:
    """The values as an array."""
    offsets = values(a.offsets)
    lengths = np.where(valid_rows(a), np.diff(offsets), 0)
    return make_lists(call.type.arrow, lengths, _inside(a, a.items), validity(a))


def _inside(a: pa.Array, items: pa.Array) -> pa.Array:
    """The items of the rows that are there, in order."""
    offsets = values(a.offsets).astype(np.int64)
    lengths = np.where(valid_rows(a), np.diff(offsets), 0)
    return items.take(column(_spread(offsets[:-1], lengths), pa.int64()))


def _spread(starts: Any, lengths: Any) -> Any:
    """start, start+1, … for each row, one after the other."""
    total = int(lengths.sum())
    begins = np.repeat(starts - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
    return begins + np.arange(total)


def valid_rows(a: pa.Array) -> Any:
    """bool [n]: where there is a value."""
    mask = valid_mask(a)
    return np.ones(len(a), np.bool_) if mask is None else mask


def subscript(call: KernelCall, a: Value, index: Value) -> Any:
    """array[i]; NULL outside."""
    lists = broadcast(a, call.num_rows)
    i = values(broadcast(index, call.num_rows)).astype(np.int64)
    lengths = lengths_of(lists)
    inside = (i >= 1) & (i <= lengths) & valid_rows(lists)
    if isinstance(index, pa.Array):
        inside &= valid_rows(index)
    at = np.where(inside, starts_of(lists) + i - 1, 0)
    return lists.values.take(column(at, pa.int64(), validity_from(inside)))


def slice_(call: KernelCall, a: Value, low: Value, high: Value) -> Any:
    """array[low:high]; empty if nothing is inside."""
    lists = broadcast(a, call.num_rows)
    lengths = lengths_of(lists)
    first = _bound(low, call.num_rows, 1)
    last = _bound(high, call.num_rows, None)
    begin = np.maximum(first, 1)
    end = lengths if last is None else np.minimum(last, lengths)
    count = np.maximum(end - begin + 1, 0)
    items = lists.values.take(column(_spread(starts_of(lists) + begin - 1, count), pa.int64()))
    return make_lists(call.type.arrow, count, items, validity(lists))


def _bound(value: Value, n: int, default: int | None) -> Any:
    if isinstance(value, pa.Scalar):
        if not value.is_valid:
            return None if default is None else np.full(n, default, np.int64)
        return np.full(n, value.as_py(), np.int64)
    data = values(value).astype(np.int64)
    mask = valid_mask(value)
    if mask is None:
        return data
    return np.where(mask, data, default if default is not None else 2**31)


def flatten(call: KernelCall, a: pa.Array) -> Any:
    """All dimensions as one."""
    from streamsql.functions.compute.text_arrays import flattened_once

    t = call.arg_types[0].element
    while t is not None and t.kind is Kind.ARRAY:
        valid = validity(a)
        once = flattened_once(a)
        a = make_lists(once.type, lengths_of(once), once.values, valid)
        t = t.element
    return a


def array_length(call: KernelCall, a: Value, dimension: Value) -> Any:
    """array_length(a, d); NULL for an empty array or a dimension it has not."""
    lists = broadcast(a, call.num_rows)
    wanted = values(broadcast(dimension, call.num_rows))
    found = np.zeros(call.num_rows, np.int64)
    level, inner, d = lists, call.arg_types[0], 1
    lengths = lengths_of(lists)
    first = starts_of(lists)
    alive = valid_rows(lists)
    while True:
        found = np.where(wanted == d, np.where(alive, lengths, 0), found)
        inner = inner.element or inner
        if inner.kind is not Kind.ARRAY:
            break
        alive = alive & (lengths > 0)
        children = level.values
        at = np.where(alive, first, 0)
        if not len(children):
            break
        lengths, first = lengths_of(children)[at], starts_of(children)[at]
        level, d = children, d + 1
    valid = validity_from(found > 0)
    return column(found.astype(np.int32), pa.int32(), valid)


def array_dims(call: KernelCall, a: Value) -> Any:
    """The bounds of every dimension, "[1:2][1:3]"; NULL for an empty array."""
    depth, t = 0, call.arg_types[0]
    while t.kind is Kind.ARRAY and t.element is not None:
        depth, t = depth + 1, t.element
    shown: Any = None
    for d in range(1, depth + 1):
        size = array_length(call, a, pa.scalar(d, pa.int32()))
        part = pc.binary_join_element_wise("[1:", size.cast(pa.string()), "]", "")
        # a dimension that is not there (an empty array has none) ends the text
        shown = part if shown is None else pc.binary_join_element_wise(
            shown, pc.fill_null(part, ""), ""
        )  # fmt: skip
    return shown


def cardinality(call: KernelCall, a: pa.Array) -> Any:
    """Elements in all dimensions."""
    t = call.arg_types[0]
    if t.element is not None and t.element.kind is Kind.ARRAY:
        inner = KernelCall(len(a.values), call.type, (t.element,))
        counts = values(flat(pc.fill_null(cardinality(inner, a.values), 0))).astype(np.int64)
        ends = np.concatenate(([0], np.cumsum(counts)))
        offsets = values(a.offsets).astype(np.int64)
        total = ends[offsets[1:]] - ends[offsets[:-1]]
        return column(total.astype(np.int32), pa.int32(), validity(a))
    return pc.list_value_length(a)


def map_cardinality(call: KernelCall, a: pa.Array) -> Any:
    """Entries of a map."""
    counts = np.diff(values(a.offsets)).astype(np.int32)
    return column(counts, pa.int32(), validity(a))


def array_ndims(call: KernelCall, a: pa.Array) -> Any:
    """Dimensions; NULL for an empty array."""
    depth, t = 0, call.arg_types[0]
    while t.kind is Kind.ARRAY and t.element is not None:
        depth, t = depth + 1, t.element
    some = lengths_of(a) > 0
    return column(np.full(len(a), depth, np.int32), pa.int32(), validity_from(some & valid_rows(a)))


def array_lower(call: KernelCall, a: Value, dimension: Value) -> Any:
    """1; NULL for an empty array."""
    lengths = array_length(call, a, dimension)
    return pc.if_else(pc.is_valid(lengths), pa.scalar(1, pa.int32()), pa.scalar(None, pa.int32()))


# --- building -----------------------------------------------------------------------------------
def _joined(call: KernelCall, parts: list[tuple[pa.Array, Any, Any]], valid: Any) -> Any:
    """Concatenate, row by row, slices (items, starts, lengths) of several columns."""
    t = call.type.arrow
    n = call.num_rows
    pool = pa.concat_arrays(
        [p[0] if p[0].type == t.value_type else p[0].cast(t.value_type) for p in parts]
    )
    base = np.cumsum([0] + [len(p[0]) for p in parts[:-1]])
    starts = np.stack([p[1] + b for p, b in zip(parts, base, strict=True)], axis=1).reshape(-1)
    lengths = np.stack([p[2] for p in parts], axis=1)
    items = pool.take(column(_spread(starts, lengths.reshape(-1)), pa.int64()))
    return make_lists(t, lengths.sum(axis=1), items, valid) if n else pa.array([], t)


def _slices(lists: pa.Array) -> tuple[pa.Array, Any, Any]:
    return lists.values, starts_of(lists), lengths_of(lists)


def _singles(value: pa.Array) -> tuple[pa.Array, Any, Any]:
    n = len(value)
    return value, np.arange(n), np.ones(n, np.int64)


def array_cat(call: KernelCall, a: Value, b: Value) -> Any:
    """array || array; a NULL array is like none."""
    x, y = broadcast(a, call.num_rows), broadcast(b, call.num_rows)
    valid = validity_from(valid_rows(x) | valid_rows(y))
    return _joined(call, [_slices(x), _slices(y)], valid)


def array_append(call: KernelCall, a: Value, item: Value) -> Any:
    """array || element."""
    x, y = broadcast(a, call.num_rows), broadcast(item, call.num_rows)
    return _joined(call, [_slices(x), _singles(y)], None)


def array_prepend(call: KernelCall, item: Value, a: Value) -> Any:
    """element || array."""
    x, y = broadcast(a, call.num_rows), broadcast(item, call.num_rows)
    return _joined(call, [_singles(y), _slices(x)], None)


def _equal_items(call: KernelCall, lists: pa.Array, item: pa.Array) -> tuple[Any, Any]:
    """(row of each flattened element, whether it is not distinct from the row's item)."""
    element = call.arg_types[0].element
    assert element is not None
    items = lists.flatten()
    rows = np.repeat(np.arange(len(lists)), lengths_of(lists))
    wanted = item.take(column(rows.astype(np.int64), pa.int64()))
    inner = KernelCall(len(items), BOOLEAN, (element, element))
    if not len(items):
        return rows, np.zeros(0, np.bool_)
    different = comparisons.distinct_from(inner, items, wanted)
    return rows, ~np.asarray(different)


def array_position(call: KernelCall, a: Value, item: Value, start: Any = None) -> Any:
    """First subscript of the item, NULL if it is not there."""
    lists, wanted = broadcast(a, call.num_rows), broadcast(item, call.num_rows)
    rows, equal = _equal_items(call, lists, wanted)
    lengths = lengths_of(lists)
    ends = np.cumsum(lengths)
    place = np.arange(len(rows)) - np.repeat(ends - lengths, lengths) + 1
    if start is not None:
        first = values(broadcast(start, call.num_rows))
        equal &= place >= first[rows]
    best = np.full(call.num_rows, 2**31 - 1, np.int64)
    np.minimum.at(best, rows[equal], place[equal])
    found = best < 2**31 - 1
    return column(np.where(found, best, 0).astype(np.int32), pa.int32(), validity_from(found))


def array_positions(call: KernelCall, a: Value, item: Value) -> Any:
    """All subscripts of the item."""
    lists, wanted = broadcast(a, call.num_rows), broadcast(item, call.num_rows)
    rows, equal = _equal_items(call, lists, wanted)
    lengths = lengths_of(lists)
    ends = np.cumsum(lengths)
    place = np.arange(len(rows)) - np.repeat(ends - lengths, lengths) + 1
    counts = np.bincount(rows[equal], minlength=call.num_rows)
    items = column(place[equal].astype(np.int32), pa.int32())
    return make_lists(call.type.arrow, counts, items, validity(lists))


def array_remove(call: KernelCall, a: Value, item: Value) -> Any:
    """Without the elements equal to the item."""
    lists, wanted = broadcast(a, call.num_rows), broadcast(item, call.num_rows)
    rows, equal = _equal_items(call, lists, wanted)
    keep = ~equal
    counts = np.bincount(rows[keep], minlength=call.num_rows)
    items = lists.flatten().filter(from_bools(keep))
    return make_lists(call.type.arrow, counts, items, validity(lists))


def array_replace(call: KernelCall, a: Value, old: Value, new: Value) -> Any:
    """Elements equal to `old` as `new`."""
    lists, wanted = broadcast(a, call.num_rows), broadcast(old, call.num_rows)
    rows, equal = _equal_items(call, lists, wanted)
    after = broadcast(new, call.num_rows).take(column(rows.astype(np.int64), pa.int64()))
    items = flat(pc.if_else(from_bools(equal), after, lists.flatten()))
    return make_lists(call.type.arrow, lengths_of(lists), items, validity(lists))


def _rowwise(
    call: KernelCall, args: tuple[Value, ...], fn: Callable[..., Any], t: pa.DataType
) -> pa.Array:
    """fn of the Python values of each row; NULL in any argument is NULL. For what arrays rarely
    do."""
    columns = [broadcast(a, call.num_rows).to_pylist() for a in args]
    return pa.array(
        [None if any(v is None for v in r) else fn(*r) for r in zip(*columns, strict=True)], t
    )


def _keys(items: list[Any], t: SqlType) -> list[Any]:
    from streamsql.functions.compute.nested_order import sort_key

    return [sort_key(v, t) for v in items]


def _element(call: KernelCall) -> SqlType:
    element = call.arg_types[0].element
    assert element is not None
    return element


def contains(call: KernelCall, a: Value, b: Value) -> Any:
    """a @> b: every element of b is in a; NULL equals nothing."""
    t = _element(call)

    def one(x: list[Any], y: list[Any]) -> bool:
        have = _keys([v for v in x if v is not None], t)
        return all(v is not None and k in have for v, k in zip(y, _keys(y, t), strict=True))

    return _rowwise(call, (a, b), one, pa.bool_())


def contained(call: KernelCall, a: Value, b: Value) -> Any:
    """a <@ b"""
    return contains(call, b, a)


def overlap(call: KernelCall, a: Value, b: Value) -> Any:
    """a && b: an element in common."""
    t = _element(call)

    def one(x: list[Any], y: list[Any]) -> bool:
        have = _keys([v for v in x if v is not None], t)
        return any(v is not None and k in have for v, k in zip(y, _keys(y, t), strict=True))

    return _rowwise(call, (a, b), one, pa.bool_())


def array_distinct(call: KernelCall, a: Value) -> Any:
    """Every element once, in the order of first appearance."""
    t = _element(call)

    def one(x: list[Any]) -> list[Any]:
        seen: list[Any] = []
        out = []
        for v, k in zip(x, _keys(x, t), strict=True):
            if k not in seen:
                seen.append(k)
                out.append(v)
        return out

    return _rowwise(call, (a,), one, call.type.arrow)


def array_sort(call: KernelCall, a: Value) -> Any:
    """Ascending, NULLs last."""
    t = _element(call)

    def one(x: list[Any]) -> list[Any]:
        known = [v for v in x if v is not None]
        order = sorted(range(len(known)), key=lambda i: _keys(known, t)[i])
        return [known[i] for i in order] + [None] * (len(x) - len(known))

    return _rowwise(call, (a,), one, call.type.arrow)


def trim_array(call: KernelCall, a: Value, count: Value) -> Any:
    """Without the last `count` elements."""
    lists = broadcast(a, call.num_rows)
    counts = broadcast(count, call.num_rows)
    n = values(counts).astype(np.int64)
    lengths = lengths_of(lists)
    there = valid_rows(lists) & valid_rows(counts)
    bad = there & ((n < 0) | (n > lengths))
    if bad.any():
        call.fail(
            bad, ArraySubscriptError,
            lambda r: f"number of elements to trim must be between 0 and {lengths[r]}",
        )  # fmt: skip
    keep = np.where(bad | ~there, 0, lengths - n)
    items = lists.values.take(column(_spread(starts_of(lists), keep), pa.int64()))
    return make_lists(call.type.arrow, keep, items, validity_from(there))


ARRAY_ITEMS_MAX = 134_217_727


def array_fill(call: KernelCall, item: Value, counts: Value) -> Any:
    """array_fill(value, {n})."""
    x, dims = broadcast(item, call.num_rows), broadcast(counts, call.num_rows)
    there = np.asarray(dims.is_valid())
    length = np.where(there, lengths_of(dims), 0)
    first = pc.list_element(pc.if_else(pa.array(length > 0), dims, pa.scalar([0], dims.type)), 0)
    n = values(first.fill_null(0)).astype(np.int64)
    if not there.all():
        what = "dimension array or low bound array cannot be null"
        call.fail(~there, NullValueNotAllowed, what)
    unknown = there & np.asarray(first.is_null())
    if unknown.any():
        call.fail(unknown, NullValueNotAllowed, "dimension values cannot be null")
    if bool((length > 1).any()):
        what = "array_fill of more than one dimension is not implemented"
        call.fail(length > 1, FeatureNotSupported, what)
    together = np.cumsum(np.maximum(n, 0))  # offsets of a column have 32 bits
    beyond = (n < 0) | (n > ARRAY_ITEMS_MAX) | (together > 2**31 - 1)
    if beyond.any():
        what = f"array size exceeds the maximum allowed ({ARRAY_ITEMS_MAX})"
        call.fail(beyond, ProgramLimitExceeded, what)
    n = np.where(there & ~beyond & (length < 2), n, 0)
    rows = np.repeat(np.arange(call.num_rows), n)
    items = x.take(column(rows.astype(np.int64), pa.int64()))
    return make_lists(call.type.arrow, n, items, validity(dims))
