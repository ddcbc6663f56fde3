"""JSONB as keys: equal documents have equal texts, alone or inside of arrays, structs and maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.schema import Schema
from streamsql.core.types import Kind, SqlType
from streamsql.kernels.hashing import Lanes, hash_arrays, hash_columns

# strings are passed over whole; of a number the zeros that end its fraction go, and a lone point
_NUMBERS = r'("(?:[^"\\]|\\.)*")|(\.[0-9]*[1-9])0+\b|\.0+\b'
_SUSPECT = r"\.[0-9]*0([^0-9]|$)"


def shortest(a: pa.Array) -> pa.Array:
    """The normal form of stored JSONB with every number at its shortest.

    >>> shortest(pa.array(['{"a.0": 1.50, "b": [2.0, 10]}'])).to_pylist()
    ['{"a.0": 1.5, "b": [2, 10]}']
    """
    found = pc.match_substring_regex(a, _SUSPECT)
    if not pc.any(found).as_py():
        return a
    return pc.replace_substring_regex(a, _NUMBERS, r"\1\2")


Leaf = Callable[[pa.Array], pa.Array]


def leaves(a: pa.Array, t: SqlType, leaf: Leaf) -> pa.Array:
    """The column with `leaf` of the documents in it. t: its type with JSONB where they are."""
    if t.kind is Kind.JSONB:
        return leaf(a)
    if not t.holds(Kind.JSONB):
        return a
    if t.kind is Kind.STRUCT:
        children = [leaves(a.field(i), f, leaf) for i, (_, f) in enumerate(t.fields)]
        fields = [pa.field(n, c.type) for (n, _), c in zip(t.fields, children, strict=True)]
        mask = a.is_null() if a.null_count else None
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    buffers = a.buffers()[:2]
    if t.kind is Kind.MAP:
        assert t.key is not None and t.value is not None
        made = [leaves(a.keys, t.key, leaf), leaves(a.items, t.value, leaf)]
        whole = pa.map_(made[0].type, made[1].type)
        fields = [pa.field("key", made[0].type, nullable=False), pa.field("value", made[1].type)]
        inner = pa.StructArray.from_arrays(made, fields=fields)
        return pa.Array.from_buffers(whole, len(a), buffers, offset=a.offset, children=[inner])
    assert t.element is not None
    items = leaves(a.values, t.element, leaf)
    return pa.Array.from_buffers(
        pa.list_(items.type), len(a), buffers, offset=a.offset, children=[items]
    )


def hash_keys(
    batch: pa.RecordBatch, columns: Sequence[int], schema: Schema, key: Sequence[int] | None = None
) -> Lanes:
    """`hash_columns` of columns that are `key` (None = the same positions) of rows of `schema`,
    with JSONB by its value."""
    types = [schema[i].type for i in (columns if key is None else key)]
    if not any(t.holds(Kind.JSONB) for t in types):
        return hash_columns(batch, columns)
    arrays = [
        leaves(batch.column(i), t, shortest) if t.holds(Kind.JSONB) else batch.column(i)
        for i, t in zip(columns, types, strict=True)
    ]
    return hash_arrays(arrays, batch.num_rows)
