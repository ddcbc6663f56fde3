"""bytea: the bytes themselves."""

from __future__ import annotations

import pyarrow as pa

from streamsql.core.types import SqlType
from streamsql_server.encoding.pieces import Encoded, from_strings
from streamsql_server.encoding.wire_type import WireType


def binary(column: pa.Array, type_: SqlType) -> Encoded:
    """As they are."""
    return from_strings(column)


BYTEA = WireType(17, "bytea", -1, 1001, binary, bytes)
