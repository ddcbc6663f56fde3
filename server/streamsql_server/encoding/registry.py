"""All wire types, in one explicit table; adding one is a file, a line here and its test."""

from __future__ import annotations

from streamsql.core.types import SqlType
from streamsql_server.encoding import oids, text
from streamsql_server.encoding.arrays import array_of
from streamsql_server.encoding.boolean import BOOLEAN
from streamsql_server.encoding.bytea import BYTEA
from streamsql_server.encoding.date import DATE
from streamsql_server.encoding.floats import FLOAT4, FLOAT8
from streamsql_server.encoding.integers import INT2, INT4, INT8
from streamsql_server.encoding.interval import INTERVAL
from streamsql_server.encoding.json import JSONB
from streamsql_server.encoding.numeric import NUMERIC
from streamsql_server.encoding.text_only import ACLITEM, ANYARRAY, INET, TID, VOID
from streamsql_server.encoding.time import TIME
from streamsql_server.encoding.timestamp import TIMESTAMP, TIMESTAMPTZ
from streamsql_server.encoding.uuid import UUID
from streamsql_server.encoding.vectors import INT2VECTOR, OIDVECTOR
from streamsql_server.encoding.wire_type import WireType

WIRE_TYPES: tuple[WireType, ...] = (
    BOOLEAN,
    BYTEA,
    INT8,
    INT2,
    INT4,
    text.TEXT,
    text.VARCHAR,
    text.BPCHAR,
    text.NAME,
    text.CHAR,
    text.UNKNOWN,
    text.CSTRING,
    text.PG_NODE_TREE,
    text.JSON,
    JSONB,
    FLOAT4,
    FLOAT8,
    NUMERIC,
    DATE,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    INTERVAL,
    UUID,
    oids.OID,
    oids.REGPROC,
    oids.REGPROCEDURE,
    oids.REGOPER,
    oids.REGOPERATOR,
    oids.REGCLASS,
    oids.REGTYPE,
    oids.REGCONFIG,
    oids.REGDICTIONARY,
    oids.REGNAMESPACE,
    oids.REGROLE,
    oids.REGCOLLATION,
    oids.XID,
    oids.CID,
    INT2VECTOR,
    OIDVECTOR,
    TID,
    ACLITEM,
    ANYARRAY,
    INET,
    VOID,
)

_BY_OID: dict[int, WireType] = {
    **{t.oid: t for t in WIRE_TYPES},
    **{t.array_oid: array_of(t) for t in WIRE_TYPES if t.array_oid},
}


def wire_type(oid: int) -> WireType | None:
    """The wire type with that OID, if we have it."""
    return _BY_OID.get(oid)


def wire_type_of(type_: SqlType) -> WireType:
    """The wire type of a SQL type; every kind of SQL type has one."""
    return _BY_OID[type_.oid]
