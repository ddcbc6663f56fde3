"""JSONB values as keys, alone or inside of arrays, structs and maps: equal values, equal texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.errors import InvalidParameterValue
from streamsql.functions.compute.columns import (
    Value,
    broadcast,
    text_buffers,
    valid_mask,
    validity_from,
)
from streamsql.functions.compute.json_order import sort_keys
from streamsql.functions.compute.texts import gather
from streamsql.functions.definitions import KernelCall
from streamsql.kernels.jsonb import leaves, shortest


def sort_key(call: KernelCall, a: Value) -> Any:
    """Documents, alone or in a nested value, as bytes in PostgreSQL's order."""
    return leaves(broadcast(a, call.num_rows), call.arg_types[0], sort_keys)


def key(call: KernelCall, a: Value) -> Any:
    """Equal documents, alone or in a nested value, with equal texts."""
    return leaves(broadcast(a, call.num_rows), call.arg_types[0], shortest)


def object_key(call: KernelCall, a: Value) -> Any:
    """A key of an object under construction, which must not be NULL (22023)."""
    there = np.asarray(broadcast(a, call.num_rows).is_valid())
    if not there.all():
        call.fail(~there, InvalidParameterValue, "field name must not be null")
    return a


def sortable(call: KernelCall, a: Value) -> Any:
    """Documents as bytes in their order, out of which `unsorted` takes them again: the sort key,
    the text, and the text's length in four bytes."""
    return leaves(broadcast(a, call.num_rows), call.arg_types[0], _with_text)


def _with_text(a: pa.Array) -> pa.Array:
    lengths = pc.fill_null(pc.binary_length(a), 0)
    size = np.asarray(lengths).astype(">u4").tobytes()
    fixed = pa.Array.from_buffers(pa.binary(4), len(a), [None, pa.py_buffer(size)])
    parts = (sort_keys(a), a.cast(pa.binary()), fixed.cast(pa.binary()))
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.binary()))


def unsorted(call: KernelCall, a: Value) -> Any:
    """The documents that `sortable` made bytes of."""
    return leaves(broadcast(a, call.num_rows), call.type, _text_of)


def _text_of(a: pa.Array) -> pa.Array:
    offsets, data = text_buffers(a)
    ends = offsets[1:].astype(np.int64) - 4
    there = valid_mask(a)
    rows = np.arange(len(a)) if there is None else np.flatnonzero(there)
    sizes = np.zeros(len(a), np.int64)
    last = data[ends[rows][:, None] + np.arange(4)].astype(np.int64)
    sizes[rows] = (last << np.array([24, 16, 8, 0])).sum(axis=1)
    return gather(data, ends - sizes, ends, validity_from(there))
