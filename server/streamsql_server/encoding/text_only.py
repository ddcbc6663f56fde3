"""Types that only catalogs show, with a text form alone."""

from __future__ import annotations

import pyarrow as pa

from streamsql.core.types import SqlType
from streamsql_server.encoding.arrays import array_of
from streamsql_server.encoding.pieces import Encoded, from_strings
from streamsql_server.encoding.text import TEXT, text
from streamsql_server.encoding.wire_type import WireContext, WireType

_text_array = array_of(TEXT)


def _void_text(column: pa.Array, type_: SqlType, context: WireContext) -> pa.Array:
    return pa.array([""] * len(column), pa.string())


def _void_binary(column: pa.Array, type_: SqlType) -> Encoded:
    return from_strings(pa.array([b""] * len(column), pa.binary()))


def _array_text(column: pa.Array, type_: SqlType, context: WireContext) -> pa.Array:
    encode = _text_array.text if pa.types.is_list(column.type) else text
    return encode(column, type_, context)


TID = WireType(27, "tid", 6, 1010, text)
ACLITEM = WireType(1033, "aclitem", 12, 1034, text)
ANYARRAY = WireType(2277, "anyarray", -1, 0, _array_text)
INET = WireType(869, "inet", -1, 1041, text)
VOID = WireType(2278, "void", 4, 0, _void_text, _void_binary)
