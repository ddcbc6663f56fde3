"""SQL types and what they are in Arrow, DuckDB and on the Postgres wire.

One `SqlType` value is used from parser to wire. Storage (Arrow) is canonical: every delta, column
store and evaluator holds a SQL type in exactly `SqlType.arrow`:

| SQL | Arrow |
|---|---|
| BOOLEAN | bool |
| SMALLINT, INTEGER, BIGINT | int16, int32, int64 |
| REAL, DOUBLE PRECISION | float32, float64 |
| NUMERIC(p, s) / bare NUMERIC | decimal128(p, s) / decimal128(38, 10) |
| TEXT, VARCHAR(n), UUID, JSON, JSONB | string (UUID lower case, JSONB normalised text) |
| BYTEA | binary |
| DATE, TIME | date32, time64[us] |
| TIMESTAMP, TIMESTAMPTZ | timestamp[us], timestamp[us, UTC] |
| INTERVAL | month_day_nano_interval |
| t[] | list<t> |
| STRUCT(a t, …) | struct |
| MAP(k, v) | map |
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa

from streamsql.core import interval_fields
from streamsql.core.errors import UndefinedObject


class Kind(enum.Enum):
    """The type constructors; the value is the name `format_type` prints."""

    BOOLEAN = "boolean"
    SMALLINT = "smallint"
    INTEGER = "integer"
    BIGINT = "bigint"
    REAL = "real"
    DOUBLE = "double precision"
    NUMERIC = "numeric"
    TEXT = "text"
    VARCHAR = "character varying"
    BYTEA = "bytea"
    DATE = "date"
    TIME = "time without time zone"
    TIMESTAMP = "timestamp without time zone"
    TIMESTAMPTZ = "timestamp with time zone"
    INTERVAL = "interval"
    UUID = "uuid"
    JSON = "json"
    JSONB = "jsonb"
    ARRAY = "array"
    STRUCT = "struct"
    MAP = "map"
    UNKNOWN = "unknown"  # an untyped string literal or NULL, before coercion


BARE_NUMERIC_PRECISION = 38
BARE_NUMERIC_SCALE = 10

_ARROW: dict[Kind, pa.DataType] = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.SMALLINT: pa.int16(),
    Kind.INTEGER: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.REAL: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.TEXT: pa.string(),
    Kind.VARCHAR: pa.string(),
    Kind.BYTEA: pa.binary(),
    Kind.DATE: pa.date32(),
    Kind.TIME: pa.time64("us"),
    Kind.TIMESTAMP: pa.timestamp("us"),
    Kind.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
    Kind.INTERVAL: pa.month_day_nano_interval(),
    Kind.UUID: pa.string(),
    Kind.JSON: pa.string(),
    Kind.JSONB: pa.string(),
    Kind.UNKNOWN: pa.string(),
}

_DUCKDB: dict[Kind, str] = {
    Kind.BOOLEAN: "BOOLEAN",
    Kind.SMALLINT: "SMALLINT",
    Kind.INTEGER: "INTEGER",
    Kind.BIGINT: "BIGINT",
    Kind.REAL: "FLOAT",
    Kind.DOUBLE: "DOUBLE",
    Kind.TEXT: "VARCHAR",
    Kind.VARCHAR: "VARCHAR",
    Kind.BYTEA: "BLOB",
    Kind.DATE: "DATE",
    Kind.TIME: "TIME",
    Kind.TIMESTAMP: "TIMESTAMP",
    Kind.TIMESTAMPTZ: "TIMESTAMPTZ",
    Kind.INTERVAL: "INTERVAL",
    Kind.UUID: "VARCHAR",
    Kind.JSON: "VARCHAR",
    Kind.JSONB: "VARCHAR",
    Kind.UNKNOWN: "VARCHAR",
}

# kind -> (oid, array oid, typlen)
_OID: dict[Kind, tuple[int, int, int]] = {
    Kind.BOOLEAN: (16, 1000, 1),
    Kind.BYTEA: (17, 1001, -1),
    Kind.BIGINT: (20, 1016, 8),
    Kind.SMALLINT: (21, 1005, 2),
    Kind.INTEGER: (23, 1007, 4),
    Kind.TEXT: (25, 1009, -1),
    Kind.JSON: (114, 199, -1),
    Kind.REAL: (700, 1021, 4),
    Kind.DOUBLE: (701, 1022, 8),
    Kind.VARCHAR: (1043, 1015, -1),
    Kind.DATE: (1082, 1182, 4),
    Kind.TIME: (1083, 1183, 8),
    Kind.TIMESTAMP: (1114, 1115, 8),
    Kind.TIMESTAMPTZ: (1184, 1185, 8),
    Kind.INTERVAL: (1186, 1187, 16),
    Kind.NUMERIC: (1700, 1231, -1),
    Kind.UUID: (2950, 2951, 16),
    Kind.JSONB: (3802, 3807, -1),
    Kind.UNKNOWN: (705, 1009, -2),
    # PostgreSQL has no anonymous struct or map type a client could decode; both travel as jsonb
    # text
    Kind.STRUCT: (3802, 3807, -1),
    Kind.MAP: (3802, 3807, -1),
}

INTEGER_KINDS = frozenset({Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT})
FLOAT_KINDS = frozenset({Kind.REAL, Kind.DOUBLE})
NUMERIC_KINDS = INTEGER_KINDS | FLOAT_KINDS | {Kind.NUMERIC}
TEXT_KINDS = frozenset({Kind.TEXT, Kind.VARCHAR})
DATETIME_KINDS = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})


@dataclass(frozen=True, slots=False)
class SqlType:
    """One SQL type.

    precision, scale: NUMERIC only; None = bare NUMERIC, stored as (38, 10). A NUMERIC whose
    `constrained` is False prints as plain `numeric` and has typmod -1 on the wire, even when the
    storage scale is known (the result of sum(bigint) is stored with scale 0).
    length: VARCHAR only. digits: of the seconds' fraction in TIME(p), TIMESTAMP(p), INTERVAL(p), of
    an INTERVAL with its fields (`core/interval_fields.py`); a type with them equals the one without
    (what is stored is the same). element: ARRAY.
    fields: STRUCT, in order. key, value: MAP.
    """

    kind: Kind
    precision: int | None = None
    scale: int | None = None
    length: int | None = None
    element: SqlType | None = None
    fields: tuple[tuple[str, SqlType], ...] = ()
    key: SqlType | None = None
    value: SqlType | None = None
    constrained: bool = field(default=True, compare=False)
    digits: int | None = field(default=None, compare=False)

    @cached_property
    def arrow(self) -> pa.DataType:
        """The canonical Arrow type this SQL type is stored in."""
        if self.kind is Kind.NUMERIC:
            precision, scale = self.storage_precision_scale
            return pa.decimal128(precision, scale)
        if self.kind is Kind.ARRAY:
            assert self.element is not None
            return pa.list_(self.element.arrow)
        if self.kind is Kind.STRUCT:
            return pa.struct([pa.field(name, t.arrow) for name, t in self.fields])
        if self.kind is Kind.MAP:
            assert self.key is not None and self.value is not None
            return pa.map_(self.key.arrow, self.value.arrow)
        return _ARROW[self.kind]

    @property
    def storage_precision_scale(self) -> tuple[int, int]:
        """(precision, scale) of the decimal128 a NUMERIC is stored in."""
        if self.precision is None:
            return BARE_NUMERIC_PRECISION, BARE_NUMERIC_SCALE
        return self.precision, self.scale or 0

    @cached_property
    def duckdb(self) -> str:
        """The DuckDB type that reads and writes the canonical Arrow type."""
        if self.kind is Kind.NUMERIC:
            precision, scale = self.storage_precision_scale
            return f"DECIMAL({precision},{scale})"
        if self.kind is Kind.ARRAY:
            assert self.element is not None
            return f"{self.element.duckdb}[]"
        if self.kind is Kind.STRUCT:
            inner = ", ".join(f'"{name}" {t.duckdb}' for name, t in self.fields)
            return f"STRUCT({inner})"
        if self.kind is Kind.MAP:
            assert self.key is not None and self.value is not None
            return f"MAP({self.key.duckdb}, {self.value.duckdb})"
        return _DUCKDB[self.kind]

    @property
    def oid(self) -> int:
        """PostgreSQL type OID for RowDescription."""
        if self.kind is Kind.ARRAY:
            element = self.element
            assert element is not None
            while element.kind is Kind.ARRAY:
                assert element.element is not None
                element = element.element
            return _OID[element.kind][1]
        return _OID[self.kind][0]

    @property
    def typlen(self) -> int:
        """pg_type.typlen: bytes, or -1 for variable length."""
        return -1 if self.kind is Kind.ARRAY else _OID[self.kind][2]

    @property
    def typmod(self) -> int:
        """atttypmod of RowDescription; -1 when the type has no modifier."""
        if self.kind is Kind.ARRAY and self.element is not None and self.leaf_digits is not None:
            return self.element.typmod
        if self.kind is Kind.NUMERIC and self.precision is not None and self.constrained:
            return ((self.precision << 16) | (self.scale or 0)) + 4
        if self.kind is Kind.VARCHAR and self.length is not None:
            return self.length + 4
        if self.digits is not None:
            is_interval = self.kind is Kind.INTERVAL
            return interval_fields.typmod(self.digits) if is_interval else self.digits
        return -1

    def __str__(self) -> str:
        """As PostgreSQL's format_type prints it."""
        if self.kind is Kind.NUMERIC and self.precision is not None and self.constrained:
            return f"numeric({self.precision},{self.scale or 0})"
        if self.kind is Kind.VARCHAR and self.length is not None:
            return f"character varying({self.length})"
        if self.digits is not None and self.kind is Kind.INTERVAL:
            return self.kind.value + interval_fields.words(self.digits)
        if self.digits is not None:
            word, *rest = self.kind.value.split(" ", maxsplit=1)
            return " ".join((f"{word}({self.digits})", *rest))
        if self.kind is Kind.ARRAY:
            return f"{self.element}[]"
        if self.kind is Kind.STRUCT:
            return "struct<" + ", ".join(f"{name} {t}" for name, t in self.fields) + ">"
        if self.kind is Kind.MAP:
            return f"map({self.key}, {self.value})"
        return self.kind.value

    @property
    def is_numeric(self) -> bool:
        return self.kind in NUMERIC_KINDS

    @property
    def is_integer(self) -> bool:
        return self.kind in INTEGER_KINDS

    @property
    def is_float(self) -> bool:
        return self.kind in FLOAT_KINDS

    @property
    def is_text(self) -> bool:
        return self.kind in TEXT_KINDS

    @cached_property
    def parts(self) -> tuple[SqlType, ...]:
        """What a nested type is made of: element, fields, or key and value."""
        found = (self.element, *(t for _, t in self.fields), self.key, self.value)
        return tuple(t for t in found if t is not None)

    @cached_property
    def leaf_digits(self) -> int | None:
        """`digits`, of an array those of its elements."""
        if self.kind is Kind.ARRAY and self.element is not None:
            return self.element.leaf_digits
        return self.digits

    @cached_property
    def plain(self) -> SqlType:
        """The type without `digits`.

        >>> str(array_of(replace(TIMESTAMP, digits=3)).plain)
        'timestamp without time zone[]'
        """
        if self.leaf_digits is None:
            return self
        if self.kind is Kind.ARRAY and self.element is not None:
            return array_of(self.element.plain)
        return replace(self, digits=None)

    def holds(self, kind: Kind) -> bool:
        """Is the type of this kind, or made of one that is?

        >>> array_of(JSONB).holds(Kind.JSONB), array_of(TEXT).holds(Kind.JSONB)
        (True, False)
        """
        return self.kind is kind or any(t.holds(kind) for t in self.parts)

    def with_leaf(self, old: SqlType, new: SqlType) -> SqlType:
        """The type with `new` wherever it is, or is made of, `old`.

        >>> str(array_of(JSONB).with_leaf(JSONB, TEXT))
        'text[]'
        """
        if self == old:
            return new
        if not self.parts:
            return self
        element, key, value = (
            None if t is None else t.with_leaf(old, new)
            for t in (self.element, self.key, self.value)
        )
        fields = tuple((name, t.with_leaf(old, new)) for name, t in self.fields)
        return replace(self, element=element, fields=fields, key=key, value=value)


BOOLEAN = SqlType(Kind.BOOLEAN)
SMALLINT = SqlType(Kind.SMALLINT)
INTEGER = SqlType(Kind.INTEGER)
BIGINT = SqlType(Kind.BIGINT)
REAL = SqlType(Kind.REAL)
DOUBLE = SqlType(Kind.DOUBLE)
NUMERIC = SqlType(Kind.NUMERIC)
TEXT = SqlType(Kind.TEXT)
VARCHAR = SqlType(Kind.VARCHAR)
BYTEA = SqlType(Kind.BYTEA)
DATE = SqlType(Kind.DATE)
TIME = SqlType(Kind.TIME)
TIMESTAMP = SqlType(Kind.TIMESTAMP)
TIMESTAMPTZ = SqlType(Kind.TIMESTAMPTZ)
INTERVAL = SqlType(Kind.INTERVAL)
UUID = SqlType(Kind.UUID)
JSON = SqlType(Kind.JSON)
JSONB = SqlType(Kind.JSONB)
UNKNOWN = SqlType(Kind.UNKNOWN)


def numeric(precision: int, scale: int = 0, *, constrained: bool = True) -> SqlType:
    """NUMERIC(precision, scale); `constrained=False` for a computed result of that storage."""
    return SqlType(Kind.NUMERIC, precision=precision, scale=scale, constrained=constrained)


def array_of(element: SqlType) -> SqlType:
    """The array type over `element`."""
    return SqlType(Kind.ARRAY, element=element)


def struct_of(fields: tuple[tuple[str, SqlType], ...]) -> SqlType:
    """STRUCT with the given (name, type) fields."""
    return SqlType(Kind.STRUCT, fields=fields)


def map_of(key: SqlType, value: SqlType) -> SqlType:
    """MAP(key, value)."""
    return SqlType(Kind.MAP, key=key, value=value)


_NAMES: dict[str, SqlType] = {
    **{k.value: SqlType(k) for k in _ARROW},
    "bool": BOOLEAN, "int2": SMALLINT, "int4": INTEGER, "int": INTEGER, "int8": BIGINT,
    "float4": REAL, "float8": DOUBLE, "float": DOUBLE, "double": DOUBLE, "decimal": NUMERIC,
    "numeric": NUMERIC, "string": TEXT, "varchar": VARCHAR, "char": TEXT, "bytes": BYTEA,
    "blob": BYTEA, "time": TIME, "timestamp": TIMESTAMP, "timestamptz": TIMESTAMPTZ,
    "timestamp_ltz": TIMESTAMPTZ, "tinyint": SMALLINT, "bpchar": TEXT, "name": TEXT,
}  # fmt: skip


def type_named(name: str) -> SqlType:
    """The type with this plain SQL name (no modifiers).

    Raises: UndefinedObject (42704).

    >>> str(type_named("int8"))
    'bigint'
    """
    found = _NAMES.get(name.strip().lower())
    if found is None:
        raise UndefinedObject(f'type "{name}" does not exist')
    return found


def from_arrow(t: pa.DataType) -> SqlType:
    """The SQL type that an Arrow type from outside (a dataframe, a Parquet file) becomes.

    Raises: TypeError for Arrow types without a counterpart.
    """
    simple = _FROM_ARROW.get(t)
    if simple is not None:
        return simple
    if pa.types.is_timestamp(t):
        return TIMESTAMPTZ if t.tz else TIMESTAMP
    if pa.types.is_decimal(t):
        return numeric(min(t.precision, 38), t.scale)
    if pa.types.is_dictionary(t):
        return from_arrow(t.value_type)
    if pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t):
        return array_of(from_arrow(t.value_type))
    if pa.types.is_struct(t):
        return struct_of(tuple((f.name, from_arrow(f.type)) for f in t))
    if pa.types.is_map(t):
        return map_of(from_arrow(t.key_type), from_arrow(t.item_type))
    if pa.types.is_time(t):
        return TIME
    if pa.types.is_duration(t):
        return INTERVAL
    if pa.types.is_fixed_size_binary(t):
        return BYTEA
    raise TypeError(f"Arrow type {t} has no SQL counterpart")


_FROM_ARROW: dict[pa.DataType, SqlType] = {
    pa.bool_(): BOOLEAN,
    pa.int8(): SMALLINT,
    pa.uint8(): SMALLINT,
    pa.int16(): SMALLINT,
    pa.uint16(): INTEGER,
    pa.int32(): INTEGER,
    pa.uint32(): BIGINT,
    pa.int64(): BIGINT,
    pa.uint64(): numeric(20, 0),
    pa.float16(): REAL,
    pa.float32(): REAL,
    pa.float64(): DOUBLE,
    pa.string(): TEXT,
    pa.large_string(): TEXT,
    pa.string_view(): TEXT,
    pa.binary(): BYTEA,
    pa.large_binary(): BYTEA,
    pa.date32(): DATE,
    pa.date64(): DATE,
    pa.month_day_nano_interval(): INTERVAL,
    pa.null(): TEXT,
}
