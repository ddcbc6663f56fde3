"""jsonb: its text; in binary a version byte 1 in front. Structs and maps travel as jsonb."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.types import SqlType
from streamsql_server.encoding.pieces import Encoded, from_strings
from streamsql_server.encoding.wire_type import UTC, WireType, cast_text


def binary(column: pa.Array, type_: SqlType) -> Encoded:
    """Byte 1, then the text."""
    body = cast_text(column, type_, UTC).cast(pa.binary())
    version = pa.scalar(b"\1", pa.binary())
    return from_strings(pc.binary_join_element_wise(version, body, pa.scalar(b"", pa.binary())))


def parse_binary(data: bytes) -> str:
    """The text after the version byte."""
    if data[:1] != b"\1":
        raise ValueError("unsupported jsonb version")
    return data[1:].decode("utf-8")


JSONB = WireType(3802, "jsonb", -1, 3807, binary, parse_binary)
