"""int2vector and oidvector of the catalogs: `1 2 3`; in binary an array that counts from 0."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.errors import FeatureNotSupported
from streamsql.core.types import SqlType
from streamsql_server.encoding.arrays import array_of
from streamsql_server.encoding.integers import INT2
from streamsql_server.encoding.oids import OID
from streamsql_server.encoding.pieces import Encoded
from streamsql_server.encoding.wire_type import BinaryEncoder, WireContext, WireType


def text(column: pa.Array, type_: SqlType, context: WireContext) -> pa.Array:
    """Numbers with blanks between; a column of texts is taken as it is."""
    if not pa.types.is_list(column.type):
        return column.cast(pa.string())
    return pc.binary_join(column.cast(pa.list_(pa.string())), " ")


def _binary(element: WireType) -> BinaryEncoder:
    encode = array_of(element, lower_bound=0).binary

    def binary(column: pa.Array, type_: SqlType) -> Encoded:
        if pa.types.is_string(column.type):
            trimmed = pc.utf8_trim(column, " ")
            lists = pc.split_pattern(trimmed, " ")
            empty = pa.scalar([], pa.list_(pa.string()))
            lists = pc.if_else(pc.equal(trimmed, ""), empty, lists)
            column = lists.cast(pa.list_(pa.int64()))
        if not pa.types.is_list(column.type) or encode is None:
            raise FeatureNotSupported("this vector can not be sent in binary")
        return encode(column, type_)

    return binary


INT2VECTOR = WireType(22, "int2vector", -1, 1006, _binary(INT2), text=text)
OIDVECTOR = WireType(30, "oidvector", -1, 1013, _binary(OID), text=text)
