"""uuid: 16 bytes."""

from __future__ import annotations

import uuid

import numpy as np
import pyarrow as pa

from streamsql.core.errors import InvalidTextRepresentation
from streamsql.core.types import SqlType
from streamsql_server.encoding.pieces import Encoded, from_fixed, from_strings, valid_mask
from streamsql_server.encoding.wire_type import WireType

_DIGITS = np.array([i for i in range(36) if i not in (8, 13, 18, 23)])
_NIBBLE = np.zeros(256, np.uint8)
for _value, _char in enumerate("0123456789abcdef"):
    _NIBBLE[ord(_char)] = _NIBBLE[ord(_char.upper())] = _value


def binary(column: pa.Array, type_: SqlType) -> Encoded:
    """16 bytes from the canonical text.

    Raises: InvalidTextRepresentation (22P02) if a stored value is not one.
    """
    valid = valid_mask(column)
    present = column if valid is None else column.drop_null()
    pieces = from_strings(present)
    if (pieces.lengths != 36).any():
        raise InvalidTextRepresentation("invalid input syntax for type uuid")
    values = np.zeros(len(column), "V16")
    if len(present):
        offset = int(np.frombuffer(pieces.data.buffers()[1], np.int32)[pieces.data.offset])
        raw = np.frombuffer(pieces.data.buffers()[2], np.uint8)[offset:]
        nibbles = _NIBBLE[raw[: 36 * len(present)].reshape(-1, 36)[:, _DIGITS]]
        packed = np.ascontiguousarray((nibbles[:, ::2] << 4) | nibbles[:, 1::2]).view("V16")[:, 0]
        values[slice(None) if valid is None else valid] = packed
    return from_fixed(values, valid)


def parse_binary(data: bytes) -> str:
    """The canonical text of 16 bytes."""
    return str(uuid.UUID(bytes=data))


UUID = WireType(2950, "uuid", 16, 2951, binary, parse_binary, text_value=str, plain=True)
