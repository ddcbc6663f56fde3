"""uuid: 16 bytes."""

from __future__ import annotations

import uuid

import numpy as np
import pyarrow as pa

from streamsql.core.errors import InvalidTextRepresentation
from streamsql.core.types import SqlType
from streamsql_server.encoding.pieces import Encoded, Fixed, offsets_of
from streamsql_server.encoding.wire_type import WireType

NIL = "00000000-0000-0000-0000-000000000000"
_DIGITS = np.array([i for i in range(36) if i not in (8, 13, 18, 23)])
_NIBBLE = np.zeros(256, np.uint8)
for _value, _char in enumerate("0123456789abcdef"):
    _NIBBLE[ord(_char)] = _NIBBLE[ord(_char.upper())] = _value


def binary(column: pa.Array, type_: SqlType) -> Encoded:
    """16 bytes from the canonical text.

    Raises: InvalidTextRepresentation (22P02) if a stored value is not one.
    """
    filled = column.fill_null(NIL) if column.null_count else column
    offsets = offsets_of(filled)
    if (np.diff(offsets) != len(NIL)).any():
        raise InvalidTextRepresentation("invalid input syntax for type uuid")
    if len(filled) == 0:
        return Fixed(np.empty(0, "V16"), column)
    raw = np.frombuffer(filled.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    nibbles = _NIBBLE[raw.reshape(-1, len(NIL))[:, _DIGITS]]
    packed = np.ascontiguousarray((nibbles[:, ::2] << 4) | nibbles[:, 1::2])
    return Fixed(packed.view("V16")[:, 0], column)


def parse_binary(data: bytes) -> str:
    """The canonical text of 16 bytes."""
    return str(uuid.UUID(bytes=data))


UUID = WireType(2950, "uuid", 16, 2951, binary, parse_binary, text_value=str, plain=True)
