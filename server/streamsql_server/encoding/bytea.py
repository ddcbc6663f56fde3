"""bytea: `\\x` and hexadecimal digits; the bytes themselves."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamsql.core.types import SqlType
from streamsql_server.encoding.pieces import Encoded, from_strings
from streamsql_server.encoding.wire_type import WireContext, WireType

_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.dtype("S2"))


def text(column: pa.Array, type_: SqlType, context: WireContext) -> pa.Array:
    """`\\x` and two lower-case digits per byte."""
    pieces = from_strings(column)
    sizes = np.maximum(pieces.lengths, 0).astype(np.int64)
    starts = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes * 2 + 2, out=starts[1:])
    out = np.full(int(starts[-1]), ord("x"), np.uint8)
    out[starts[:-1]] = ord("\\")
    digits = np.ones(len(out), bool)
    digits[starts[:-1]] = False
    digits[starts[:-1] + 1] = False
    out[digits] = _HEX[_bytes(pieces.data, int(sizes.sum()))].view(np.uint8)
    buffers = [None, pa.py_buffer(starts.astype(np.int32)), pa.py_buffer(out)]
    hexed = pa.Array.from_buffers(pa.string(), len(sizes), buffers)
    if column.null_count:
        import pyarrow.compute as pc

        hexed = pc.if_else(column.is_valid(), hexed, pa.scalar(None, pa.string()))
    return hexed


def _bytes(data: pa.Array, total: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    buffers = data.buffers()
    if total == 0:
        return np.empty(0, np.uint8)
    start = int(np.frombuffer(buffers[1], np.int32)[data.offset])
    return np.frombuffer(buffers[2], np.uint8)[start : start + total]


def binary(column: pa.Array, type_: SqlType) -> Encoded:
    """As they are."""
    return from_strings(column)


BYTEA = WireType(17, "bytea", -1, 1001, text, binary, bytes)
