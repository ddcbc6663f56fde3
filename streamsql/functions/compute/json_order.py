"""jsonb's order: keys of documents whose bytes compare like the documents."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamsql.functions.compute import json_order_loops
from streamsql.functions.compute.columns import text_buffers, valid_mask

NESTING_MAX = 100_000


def sort_keys(a: pa.Array) -> pa.Array:
    """The sort keys of stored JSONB.

    >>> texts = ['{"a": 1}', '[1, 2]', '[3]', 'true', '10', '9.50', '9.5', '-1', '"b"', 'null']
    >>> texts.append('[]')
    >>> keys = sort_keys(pa.array(texts)).to_pylist()
    >>> [texts[i] for i in sorted(range(len(texts)), key=lambda i: keys[i])]
    ['[]', 'null', '"b"', '-1', '9.50', '9.5', '10', 'true', '[3]', '[1, 2]', '{"a": 1}']
    >>> keys[5] == keys[6]
    True
    """
    offsets, data = text_buffers(a)
    n = len(a)
    mask = valid_mask(a)
    valid = np.ones(n, np.bool_) if mask is None else mask
    size = int(offsets[-1] - offsets[0]) if n else 0
    out = np.empty(9 * size + 16 * n, np.uint8)
    found = np.zeros(n + 1, np.int32)
    scratch = np.zeros((2, min(size, NESTING_MAX) + 2), np.int64)
    written = json_order_loops.sort_keys(offsets, data, valid, found, out, scratch[0], scratch[1])
    assert written >= 0, "documents are not nested that deep"
    bitmap = None if mask is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [bitmap, pa.py_buffer(found), pa.py_buffer(out[:written].tobytes())]
    return pa.Array.from_buffers(pa.binary(), n, buffers)
