"""bool: one byte."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamsql.core.types import SqlType
from streamsql_server.encoding.pieces import Encoded, from_fixed, valid_mask
from streamsql_server.encoding.wire_type import WireType


def binary(column: pa.Array, type_: SqlType) -> Encoded:
    """One byte, 1 or 0."""
    valid = valid_mask(column)
    filled = column if valid is None else column.fill_null(False)
    values = filled.to_numpy(zero_copy_only=False).astype(np.uint8)
    return from_fixed(values, valid)


def parse_binary(data: bytes) -> bool:
    """One byte; any but zero is true."""
    if len(data) != 1:
        raise ValueError("bool is one byte")
    return data != b"\0"


BOOLEAN = WireType(
    16, "bool", 1, 1000, binary, parse_binary,
    text_value=lambda value: "t" if value else "f", plain=True,
)  # fmt: skip
