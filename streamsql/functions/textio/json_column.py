"""Columns of JSON text in jsonb's normal form: a byte loop for what machines write, Python for the
rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.functions.compute.columns import (
    BoolArray,
    flat,
    from_bools,
    text_buffers,
    text_column,
    valid_mask,
    validity,
)

_DEPTH = 64


def normalise(array: pa.Array) -> tuple[pa.Array, BoolArray]:
    """(documents in normal form, rows the loop could not do: invalid, unsorted keys, odd
    escapes)."""
    from streamsql.functions.compute import json_loops

    offsets, data = text_buffers(array)
    n = len(array)
    mask = valid_mask(array)
    valid = np.ones(n, np.bool_) if mask is None else mask
    out_offsets = np.zeros(n + 1, np.int32)
    out = np.empty(2 * int(offsets[-1] - offsets[0]) + 16, np.uint8)
    hard = np.zeros(n, np.bool_)
    kinds = np.zeros(_DEPTH, np.uint8)
    key_at, key_end = np.zeros(_DEPTH, np.int64), np.zeros(_DEPTH, np.int64)
    size = json_loops.normalise(
        offsets, data, valid, out_offsets, out, hard, kinds, key_at, key_end
    )
    return text_column(out_offsets, out[:size], validity(array)), hard


def merged(done: pa.Array, hard: BoolArray, others: pa.Array) -> pa.Array:
    """`done`, with the hard rows from `others` (one value for each hard row, in order)."""
    return flat(pc.replace_with_mask(done, from_bools(hard), others))


def hard_rows(array: pa.Array, hard: BoolArray) -> pa.Array:
    """The texts of the hard rows."""
    return array.filter(from_bools(hard))


def spread(values: Any, encoded: pa.DictionaryArray) -> pa.Array:
    """One text for each distinct document, back on its rows."""
    return pa.array(values, pa.string()).take(encoded.indices)
