"""text, varchar and all that travel as their own characters (json, name, "char", …)."""

from __future__ import annotations

import pyarrow as pa

from streamsql.core.types import SqlType
from streamsql_server.encoding.pieces import Encoded, from_strings
from streamsql_server.encoding.wire_type import WireType


def binary(column: pa.Array, type_: SqlType) -> Encoded:
    """UTF-8 bytes."""
    return from_strings(column if pa.types.is_string(column.type) else column.cast(pa.string()))


def parse_binary(data: bytes) -> str:
    """UTF-8 bytes; a zero byte is refused, as PostgreSQL's text can not hold it."""
    if b"\0" in data:
        raise ValueError("zero byte in text")
    return data.decode("utf-8")


def text_like(oid: int, name: str, array_oid: int, typlen: int = -1) -> WireType:
    """A type whose both forms are its characters."""
    return WireType(oid, name, typlen, array_oid, binary, parse_binary, text_value=str)


TEXT = text_like(25, "text", 1009)
VARCHAR = text_like(1043, "varchar", 1015)
BPCHAR = text_like(1042, "bpchar", 1014)
NAME = text_like(19, "name", 1003, 64)
CHAR = text_like(18, "char", 1002, 1)
UNKNOWN = text_like(705, "unknown", 0, -2)
CSTRING = text_like(2275, "cstring", 1263, -2)
PG_NODE_TREE = text_like(194, "pg_node_tree", 0)
JSON = text_like(114, "json", 199)
