"""oid, the reg* types and xid: numbers for machines, names for people."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamsql.core.errors import FeatureNotSupported
from streamsql.core.types import SqlType
from streamsql_server.encoding.integers import parser
from streamsql_server.encoding.pieces import Encoded, Fixed, numbers
from streamsql_server.encoding.wire_type import WireType


def binary(column: pa.Array, type_: SqlType) -> Encoded:
    """Four bytes, unsigned.

    Raises: FeatureNotSupported (0A000) for a name (regclass, regtype …) that is no number.
    """
    try:
        column = column.cast(pa.int64())
    except pa.ArrowInvalid:
        raise FeatureNotSupported(
            "names of this type can not be sent in binary",
            hint="Cast the column to oid or to text.",
        ) from None
    values = numbers(column, "<i8").astype(np.uint32).astype(">u4")
    return Fixed(values, column)


def oid_like(oid: int, name: str, array_oid: int) -> WireType:
    """A type of four bytes that shows as its number or as a name."""
    return WireType(oid, name, 4, array_oid, binary, parser(4, signed=False), text_value=str)


OID = oid_like(26, "oid", 1028)
REGPROC = oid_like(24, "regproc", 1008)
XID = oid_like(28, "xid", 1011)
CID = oid_like(29, "cid", 1012)
REGPROCEDURE = oid_like(2202, "regprocedure", 2207)
REGOPER = oid_like(2203, "regoper", 2208)
REGOPERATOR = oid_like(2204, "regoperator", 2209)
REGCLASS = oid_like(2205, "regclass", 2210)
REGTYPE = oid_like(2206, "regtype", 2211)
REGCONFIG = oid_like(3734, "regconfig", 3735)
REGDICTIONARY = oid_like(3769, "regdictionary", 3770)
REGNAMESPACE = oid_like(4089, "regnamespace", 4090)
REGROLE = oid_like(4096, "regrole", 4097)
REGCOLLATION = oid_like(4191, "regcollation", 4192)
