"""PostgreSQL's types by OID, as the catalog relations use them, and how we store each."""

from __future__ import annotations

from sqlglot import exp

from streamsql.core.types import (
    BIGINT,
    BOOLEAN,
    BYTEA,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    JSON,
    JSONB,
    NUMERIC,
    REAL,
    SMALLINT,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    SqlType,
    array_of,
)

BOOL, BYTES, CHAR, NAME, INT8, INT2, INT2VECTOR, INT4 = 16, 17, 18, 19, 20, 21, 22, 23
REGPROC, TEXT_OID, OID, TID, XID, CID, OIDVECTOR = 24, 25, 26, 27, 28, 29, 30
FLOAT4, FLOAT8, UNKNOWN, ACLITEM, BPCHAR, VARCHAR = 700, 701, 705, 1033, 1042, 1043
DATE_OID, TIME_OID, TIMESTAMP_OID, TIMESTAMPTZ_OID, INTERVAL_OID = 1082, 1083, 1114, 1184, 1186
NUMERIC_OID, REGPROCEDURE, REGOPER, REGOPERATOR, REGCLASS, REGTYPE = (
    1700,
    2202,
    2203,
    2204,
    2205,
    2206,
)
RECORD, CSTRING, ANYARRAY, VOID, UUID_OID = 2249, 2275, 2277, 2278, 2950
JSON_OID, JSONB_OID, PG_NODE_TREE, INET = 114, 3802, 194, 869
REGCONFIG, REGDICTIONARY, REGNAMESPACE, REGROLE, REGCOLLATION = 3734, 3769, 4089, 4096, 4191

REGISTERED = frozenset(
    {REGPROC, REGPROCEDURE, REGOPER, REGOPERATOR, REGCLASS, REGTYPE, REGCONFIG, REGDICTIONARY,
     REGNAMESPACE, REGROLE, REGCOLLATION}
)  # fmt: skip
"""Types that hold an OID and show the name of what has it."""
OIDS = REGISTERED | {OID, XID, CID}
"""Stored as BIGINT."""
VECTORS = frozenset({INT2VECTOR, OIDVECTOR})
"""Arrays that count from 0."""

ARRAY_OF: dict[int, int] = {
    1000: BOOL, 1001: BYTES, 1002: CHAR, 1003: NAME, 1016: INT8, 1005: INT2, 1006: INT2VECTOR,
    1007: INT4, 1008: REGPROC, 1009: TEXT_OID, 1028: OID, 1011: XID, 1012: CID, 1013: OIDVECTOR,
    1021: FLOAT4, 1022: FLOAT8, 1034: ACLITEM, 1014: BPCHAR, 1015: VARCHAR, 1182: DATE_OID,
    1183: TIME_OID, 1115: TIMESTAMP_OID, 1185: TIMESTAMPTZ_OID, 1187: INTERVAL_OID,
    1231: NUMERIC_OID, 2207: REGPROCEDURE, 2208: REGOPER, 2209: REGOPERATOR, 2210: REGCLASS,
    2211: REGTYPE, 2951: UUID_OID, 199: JSON_OID, 3807: JSONB_OID, 3735: REGCONFIG,
    3770: REGDICTIONARY, 4090: REGNAMESPACE, 4097: REGROLE, 4192: REGCOLLATION, 1263: CSTRING,
    2287: RECORD, 1041: INET,
}  # fmt: skip
"""Array type -> element type."""
ARRAY_TYPE = {element: array for array, element in ARRAY_OF.items()}
"""Element type -> array type."""

_STORAGE: dict[int, SqlType] = {
    BOOL: BOOLEAN, BYTES: BYTEA, INT8: BIGINT, INT2: SMALLINT, INT4: INTEGER, FLOAT4: REAL,
    FLOAT8: DOUBLE, DATE_OID: DATE, TIME_OID: TIME, TIMESTAMP_OID: TIMESTAMP,
    TIMESTAMPTZ_OID: TIMESTAMPTZ, INTERVAL_OID: INTERVAL, NUMERIC_OID: NUMERIC, UUID_OID: UUID,
    JSON_OID: JSON, JSONB_OID: JSONB, INT2VECTOR: array_of(SMALLINT), OIDVECTOR: array_of(BIGINT),
    **dict.fromkeys(OIDS, BIGINT),
}  # fmt: skip
TEXT_STORAGE = TEXT

TEXTS = frozenset({TEXT_OID, NAME, CHAR, VARCHAR, BPCHAR, CSTRING, UNKNOWN})
INTEGERS = frozenset({INT2, INT4, INT8})
NUMBERS = INTEGERS | {FLOAT4, FLOAT8, NUMERIC_OID}

NAMES: dict[str, int] = {
    "bool": BOOL, "bytea": BYTES, '"char"': CHAR, "name": NAME, "int8": INT8, "int2": INT2,
    "int2vector": INT2VECTOR, "int4": INT4, "regproc": REGPROC, "text": TEXT_OID, "oid": OID,
    "tid": TID, "xid": XID, "xid8": INT8, "cid": CID, "oidvector": OIDVECTOR, "float4": FLOAT4,
    "float8": FLOAT8, "unknown": UNKNOWN, "aclitem": ACLITEM, "bpchar": BPCHAR, "varchar": VARCHAR,
    "date": DATE_OID, "time": TIME_OID, "timestamp": TIMESTAMP_OID, "timestamptz": TIMESTAMPTZ_OID,
    "interval": INTERVAL_OID, "numeric": NUMERIC_OID, "regprocedure": REGPROCEDURE,
    "regoper": REGOPER, "regoperator": REGOPERATOR, "regclass": REGCLASS, "regtype": REGTYPE,
    "record": RECORD, "cstring": CSTRING, "void": VOID, "uuid": UUID_OID, "json": JSON_OID,
    "jsonb": JSONB_OID, "pg_node_tree": PG_NODE_TREE, "inet": INET, "regconfig": REGCONFIG,
    "regdictionary": REGDICTIONARY, "regnamespace": REGNAMESPACE, "regrole": REGROLE,
    "regcollation": REGCOLLATION, "information_schema.sql_identifier": NAME,
    "information_schema.cardinal_number": INT4, "information_schema.character_data": VARCHAR,
    "information_schema.yes_or_no": VARCHAR, "information_schema.time_stamp": TIMESTAMPTZ_OID,
    "anyarray": ANYARRAY,
}  # fmt: skip

_SPELLED = {
    BOOL: "boolean", INT2: "smallint", INT4: "integer", INT8: "bigint", FLOAT4: "real",
    FLOAT8: "double precision", VARCHAR: "character varying", BPCHAR: "character",
    TIME_OID: "time without time zone", TIMESTAMP_OID: "timestamp without time zone",
    TIMESTAMPTZ_OID: "timestamp with time zone",
}  # fmt: skip


def name_of(oid: int) -> str:
    """A type's name as PostgreSQL's messages have it.

    >>> name_of(1007), name_of(19)
    ('integer[]', 'name')
    """
    if is_array(oid):
        return f"{name_of(element_of(oid))}[]"
    known = {number: name for name, number in reversed(NAMES.items())}
    return _SPELLED.get(oid) or known.get(oid, f"with OID {oid}")


_PARSED: dict[str, int] = {
    "BOOLEAN": BOOL, "SMALLINT": INT2, "INT": INT4, "BIGINT": INT8, "FLOAT": FLOAT4,
    "DOUBLE": FLOAT8, "DECIMAL": NUMERIC_OID, "TEXT": TEXT_OID, "VARCHAR": VARCHAR, "CHAR": BPCHAR,
    "BPCHAR": BPCHAR, "VARBINARY": BYTES, "DATE": DATE_OID, "TIME": TIME_OID, "TIMETZ": TIME_OID,
    "TIMESTAMP": TIMESTAMP_OID, "TIMESTAMPTZ": TIMESTAMPTZ_OID, "INTERVAL": INTERVAL_OID,
    "UUID": UUID_OID, "JSON": JSON_OID, "JSONB": JSONB_OID,
}  # fmt: skip


def storage(type_: int) -> SqlType:
    """The SQL type our relations keep a PostgreSQL type in; text for what has no other.

    >>> str(storage(1007))
    'integer[]'
    """
    element = ARRAY_OF.get(type_)
    if element is not None:
        return array_of(storage(element))
    return _STORAGE.get(type_, TEXT_STORAGE)


def is_array(type_: int) -> bool:
    """Arrays and the two vectors."""
    return type_ in ARRAY_OF or type_ in VECTORS


def element_of(type_: int) -> int:
    """Element type of an array or vector; text when it is none."""
    if type_ == INT2VECTOR:
        return INT2
    if type_ == OIDVECTOR:
        return OID
    return ARRAY_OF.get(type_, TEXT_OID)


def named_type(kind: exp.DataType) -> int | None:
    """OID of a type as it was written in a cast; None if we do not know it."""
    if kind.this is exp.DType.ARRAY:
        element = named_type(kind.expressions[0])
        return None if element is None else ARRAY_TYPE.get(element)
    if kind.this is exp.DType.USERDEFINED:
        name = str(kind.args.get("kind"))
        if name.startswith("_"):
            element = NAMES.get(name[1:])
            return None if element is None else ARRAY_TYPE.get(element)
        return NAMES.get(name, NAMES.get(name.lower()))
    return _PARSED.get(kind.this.name)


def of_sql_type(type_: SqlType) -> int:
    """OID on the wire of one of our own types."""
    return type_.oid


LENGTH: dict[int, int] = {
    BOOL: 1, CHAR: 1, NAME: 64, INT8: 8, INT2: 2, INT4: 4, FLOAT4: 4, FLOAT8: 8, DATE_OID: 4,
    TIME_OID: 8, TIMESTAMP_OID: 8, TIMESTAMPTZ_OID: 8, INTERVAL_OID: 16, UUID_OID: 16,
    **dict.fromkeys(OIDS, 4),
}  # fmt: skip
"""pg_type.typlen where it is not -1."""
ALIGNMENT: dict[int, str] = {
    BOOL: "c", CHAR: "c", NAME: "c", UUID_OID: "c", INT2: "s", INT8: "d", FLOAT8: "d",
    TIME_OID: "d", TIMESTAMP_OID: "d", TIMESTAMPTZ_OID: "d", INTERVAL_OID: "d",
}  # fmt: skip
"""pg_type.typalign where it is not i."""
