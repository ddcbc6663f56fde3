"""Types that only catalogs show, with a text form alone; and void, which is nothing at all."""

from __future__ import annotations

import pyarrow as pa

from streamsql.core.types import SqlType
from streamsql_server.encoding.pieces import Encoded, from_strings
from streamsql_server.encoding.wire_type import WireContext, WireType


def _void_text(column: pa.Array, type_: SqlType, context: WireContext) -> pa.Array:
    return pa.array([""] * len(column), pa.string())


def _void_binary(column: pa.Array, type_: SqlType) -> Encoded:
    return from_strings(pa.array([b""] * len(column), pa.binary()))


TID = WireType(27, "tid", 6, 1010)
ACLITEM = WireType(1033, "aclitem", 12, 1034)
ANYARRAY = WireType(2277, "anyarray", -1, 0)
INET = WireType(869, "inet", -1, 1041)
VOID = WireType(2278, "void", 4, 0, _void_binary, text=_void_text)
