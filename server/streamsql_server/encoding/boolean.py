"""bool: one byte."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamsql.core.types import SqlType
from streamsql_server.encoding.pieces import Encoded, Fixed
from streamsql_server.encoding.wire_type import WireType


def binary(column: pa.Array, type_: SqlType) -> Encoded:
    """One byte, 1 or 0."""
    filled = column.fill_null(False) if column.null_count else column
    return Fixed(filled.to_numpy(zero_copy_only=False).astype(np.uint8), column)


def parse_binary(data: bytes) -> bool:
    """One byte; any but zero is true."""
    if len(data) != 1:
        raise ValueError("bool is one byte")
    return data != b"\0"


BOOLEAN = WireType(
    16, "bool", 1, 1000, binary, parse_binary,
    text_value=lambda value: "t" if value else "f", plain=True,
)  # fmt: skip
