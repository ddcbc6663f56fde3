"""Kernels between text and arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.types import Kind
from streamsql.functions.compute.columns import column, flat, values
from streamsql.functions.compute.grouped import by_value, constants
from streamsql.functions.definitions import KernelCall
from streamsql.functions.textio.output import to_text


@constants(1, 2)
def string_to_array(call: KernelCall, a: pa.Array, separator: pa.Scalar, null: Any = None) -> Any:
    """The fields between separators; the empty text has none."""
    text = separator.as_py()
    if not text:
        lists = by_value(a, lambda s: [s] if s else [], pa.list_(pa.string()))
    else:
        lists = flat(pc.split_pattern(a, text)).cast(pa.list_(pa.string()))
        empty = pc.equal(a, "")
        if pc.any(empty).as_py():
            lists = flat(pc.if_else(empty, pa.scalar([], pa.list_(pa.string())), lists))
    if null is not None:
        word = null.as_py()
        items = pc.if_else(pc.equal(lists.values, word), pa.scalar(None, pa.string()), lists.values)
        lists = pa.ListArray.from_buffers(
            lists.type,
            len(lists),
            lists.buffers()[:2],
            lists.null_count,
            lists.offset,
            [flat(items)],
        )
    return lists


def string_to_chars(call: KernelCall, a: pa.Array) -> Any:
    """string_to_array with a NULL separator: every character."""
    return by_value(a, list, pa.list_(pa.string()))


@constants(1, 2)
def array_to_string(call: KernelCall, a: pa.Array, separator: pa.Scalar, null: Any = None) -> Any:
    """The elements' text with separators; NULL elements are left out or shown as `null`."""
    element = call.arg_types[0].element
    assert element is not None
    while element.kind is Kind.ARRAY and element.element is not None:
        a = flattened_once(a)
        element = element.element
    items = to_text(a.flatten(), element, call.timezone)
    lengths = values(flat(pc.fill_null(pc.list_value_length(a), 0)))
    if null is not None and null.is_valid:
        items = flat(pc.fill_null(items, null.as_py()))
    elif items.null_count:
        rows = np.repeat(np.arange(len(a)), lengths)
        keep = np.asarray(items.is_valid())
        lengths = np.bincount(rows[keep], minlength=len(a))
        items = items.drop_null()
    offsets = np.zeros(len(a) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    joined = pc.binary_join(pa.ListArray.from_arrays(column(offsets, pa.int32()), items),
                            separator.as_py())  # fmt: skip
    if a.null_count:
        joined = pc.if_else(a.is_valid(), joined, pa.scalar(None, pa.string()))
    return joined


def flattened_once(a: pa.Array) -> pa.Array:
    """A list of lists as one list of their elements."""
    inner = a.flatten()
    outer_lengths = values(flat(pc.fill_null(pc.list_value_length(a), 0)))
    inner_lengths = values(flat(pc.fill_null(pc.list_value_length(inner), 0)))
    ends = np.concatenate(([0], np.cumsum(inner_lengths)))
    bounds = np.concatenate(([0], np.cumsum(outer_lengths)))
    offsets = ends[bounds].astype(np.int32)
    return pa.ListArray.from_arrays(column(offsets, pa.int32()), inner.flatten())
