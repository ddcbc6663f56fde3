"""Values of every wire type: how they lie in Arrow, and the PostgreSQL expression for each.

`record.py` asks a real PostgreSQL for their text and binary forms and writes `wire_values.json`;
the tests compare what we encode with that file.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa

from streamsql.core import types as t

DAY_US = 86_400_000_000


def numbers(sql_type: str, values: list[Any]) -> list[tuple[Any, str]]:
    return [(v, f"'{v}'::{sql_type}") for v in values]


FLOATS = [
    0.0, -0.0, 1.0, -1.5, 0.1, 0.37, 100.0, 1e-4, 1.2e-4, 9.9e-5, 1e-5, 1.25e-5, 1.5e-7, 3e-10, 1e-300, 5e-324,
    1e9, 1e10, 12345678901.5, 1e12, 123456789012345.0, 99999999999999.9, -12345678901234.5, 999999999999999.0, 1e14,
    1e15, 1234567890123456.0, 1e16, 1e20, 1.7976931348623157e308, 123456.7, 1234567.0,
    float("inf"), float("-inf"), float("nan"),
]  # fmt: skip
FLOATS4 = [
    0.0, 1.0, -1.5, 0.1, 1e-4, 9.9e-5, 1e-5, 1.5e-7, 1e-38, 1e5, 123456.0, 123456.7, 999999.0, 1e6, 1234567.0,
    1234567.5, -8388607.5, 1e7, 16777216.0, 1e8, 1e9, 1e10, 1e15, 3.4028235e38, float("inf"), float("nan"),
]  # fmt: skip
TIMES_US = [0, 1, 10, 1_000_000, 86_399_999_999, 45_296_500_000, 86_400_000_000]
STAMPS_US = [
    0, 1, -1, 946_684_800_000_000, 1_700_000_000_123_450, 253_402_300_799_999_999, 253_402_300_800_000_000,
    -62_135_596_800_000_000, -62_135_596_800_000_001, -99_999_999_999_999_000, 9_000_000_000_000_000_000,
    1_711_846_800_000_000, 1_711_843_199_000_000, -3_000_000_000_000_000,
]  # fmt: skip
DAYS = [
    0,
    -1,
    1,
    10_957,
    19_782,
    2_932_896,
    2_932_897,
    -719_162,
    -719_163,
    -800_000,
    2_000_000_000 // 1000,
]
INTERVALS = [
    (0, 0, 0), (1, 0, 0), (14, 3, 3_723_000_000), (-1, 0, 0), (-14, 2, -1), (12, 0, 0), (0, -1, 1), (0, 1, -1),
    (25, -3, 0), (-25, 3, 0), (0, 0, 1_500_000), (0, 0, -1_500_000), (0, 0, 400_000_000_000), (0, 0, 100_000),
    (-12, 0, 60_000_000), (0, 5, 0), (5, 0, -10_000_000), (0, -4, 10_000_001),
]  # fmt: skip
NUMERICS = [
    "0", "1", "-1", "10", "9999", "10000", "10001", "99990000", "100000000", "12345678901234567890",
    "-99999999999999999999999999999999999999", "170141183460469231731687303715884105727",
][:11]  # fmt: skip
DECIMALS_10 = [
    "0", "0.0000000001", "-0.0000000001", "1.5", "0.1", "0.0001", "0.00001", "1234.5678", "10000", "-20000.02",
    "9999999999999999999999999999.9999999999", "0.0000012", "0.00000012", "100", "123000.000456",
]  # fmt: skip
TEXTS = ["", "a", "NULL", "null", "é☃𝄞", "a b", 'quo"te', "back\\slash", "tab\t", "line\nfeed", "cr\r", "{x,y}", "\\.", "a,b", "\x08\x0c\x0b\x01", " lead"]  # fmt: skip
UUIDS = ["00000000-0000-0000-0000-000000000000", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "ffffffff-ffff-ffff-ffff-ffffffffffff"]  # fmt: skip
JSONS = ["{}", '{"a": 1, "b": [1, 2, null]}', '"x"', "null", "1.50", '{"é": "☃"}']


def quoted(text: str) -> str:
    """A text as an SQL literal that needs no escapes of control characters."""
    if all(c.isprintable() for c in text):
        return "'" + text.replace("'", "''") + "'"
    return "E'" + "".join(c if c.isprintable() and c not in "'\\" else f"\\x{ord(c):02x}" for c in text) + "'"  # fmt: skip


def stamp(us: int, sql_type: str) -> str:
    zone = "+00" if sql_type == "timestamptz" else ""
    return f"(timestamp{'tz' if zone else ''} '1970-01-01 00:00:00{zone}' + interval '{us // DAY_US * 24} hours' + interval '{us % DAY_US} microseconds')"  # fmt: skip


def interval(parts: tuple[int, int, int]) -> tuple[Any, str]:
    months, days, us = parts
    value = pa.MonthDayNano((months, days, us * 1000))
    return value, f"interval '{months} months {days} days {us} microseconds'"


INF64 = 2**63 - 1
STAMP_SPECIAL = [(INF64, "'infinity'"), (-INF64, "'-infinity'")]

# (name, SqlType, PostgreSQL type, [(Arrow value or integer, expression)])
CASES: list[tuple[str, t.SqlType, str, list[tuple[Any, str]]]] = [
    ("bool", t.BOOLEAN, "bool", [(True, "true"), (False, "false")]),
    ("int2", t.SMALLINT, "int2", numbers("int2", [0, 1, -1, 32767, -32768])),
    ("int4", t.INTEGER, "int4", numbers("int4", [0, 1, -1, 2**31 - 1, -(2**31)])),
    ("int8", t.BIGINT, "int8", numbers("int8", [0, 1, -1, 2**63 - 1, -(2**63)])),
    ("float4", t.REAL, "float4", numbers("float4", FLOATS4)),
    ("float8", t.DOUBLE, "float8", numbers("float8", FLOATS)),
    ("numeric_0", t.numeric(38, 0), "numeric(38,0)", [(Decimal(v), f"'{v}'::numeric(38,0)") for v in NUMERICS]),
    ("numeric_2", t.numeric(12, 2), "numeric(12,2)", [(Decimal(v), f"'{v}'::numeric(12,2)") for v in ("0.00", "1.50", "-12345.67", "9999999999.99", "0.01", "-0.05", "10000.00", "0.10")]),
    ("numeric_38", t.numeric(38, 30), "numeric(38,30)", [(Decimal(v), f"'{v}'::numeric(38,30)") for v in ("0", "1e-30", "-1.5e-20", "12345678.000000000000000000000000000009", "3e-7")]),
    ("numeric_5", t.numeric(20, 5), "numeric(20,5)", [(Decimal(v), f"'{v}'::numeric(20,5)") for v in ("0.00000", "0.00001", "-123456789012345.12345", "1.00000", "10000.10000")]),
    ("numeric", t.NUMERIC, "numeric", [(Decimal(v), f"trim_scale('{v}'::numeric)") for v in DECIMALS_10]),
    ("text", t.TEXT, "text", [(v, quoted(v)) for v in TEXTS]),
    ("varchar", t.VARCHAR, "varchar", [(v, quoted(v) + "::varchar") for v in ("", "abc", "ü")]),
    ("bytea", t.BYTEA, "bytea", [(v, f"'\\x{v.hex()}'::bytea") for v in (b"", b"\0", b"abc", bytes(range(256)))]),
    ("date", t.DATE, "date", [(v, f"(date '1970-01-01' + {v})") for v in DAYS] + [(2**31 - 1, "date 'infinity'"), (-(2**31 - 1), "date '-infinity'")]),
    ("time", t.TIME, "time", [(v, "time '24:00'" if v == DAY_US else f"(time '00:00' + interval '{v} microseconds')") for v in TIMES_US]),
    ("timestamp", t.TIMESTAMP, "timestamp", [(v, stamp(v, "timestamp")) for v in STAMPS_US] + STAMP_SPECIAL),
    ("timestamptz", t.TIMESTAMPTZ, "timestamptz", [(v, stamp(v, "timestamptz")) for v in STAMPS_US] + STAMP_SPECIAL),
    ("interval", t.INTERVAL, "interval", [interval(v) for v in INTERVALS]),
    ("uuid", t.UUID, "uuid", [(v, f"'{v}'::uuid") for v in UUIDS]),
    ("json", t.JSON, "json", [(v, f"'{v}'::json") for v in JSONS]),
    ("jsonb", t.JSONB, "jsonb", [(v, f"'{v}'::jsonb") for v in JSONS]),
    ("int4_array", t.array_of(t.INTEGER), "int4[]", [([], "'{}'"), ([1], "'{1}'"), ([1, None, -3], "'{1,NULL,-3}'")]),
    ("text_array", t.array_of(t.TEXT), "text[]", [(TEXTS[:-4], "ARRAY[" + ",".join(quoted(v) for v in TEXTS[:-4]) + "]"), ([None], "'{NULL}'"), ([" "], "'{\" \"}'"), (["\x0b"], "ARRAY[E'\\x0b']")]),
    ("numeric_array", t.array_of(t.numeric(10, 2)), "numeric(10,2)[]", [([Decimal("1.50"), None, Decimal("0.00")], "'{1.5,NULL,0}'")]),
    ("bool_array", t.array_of(t.BOOLEAN), "bool[]", [([True, False, None], "'{t,f,NULL}'")]),
    ("float8_array", t.array_of(t.DOUBLE), "float8[]", [([1.0, 1e-7, float("inf"), None], "'{1,1e-7,Infinity,NULL}'")]),
    ("date_array", t.array_of(t.DATE), "date[]", [([dt.date(2024, 2, 29), None], "'{2024-02-29,NULL}'")]),
    ("timestamp_array", t.array_of(t.TIMESTAMP), "timestamp[]", [([dt.datetime(2024, 2, 29, 12, 0, 0, 500000)], "'{2024-02-29 12:00:00.5}'")]),
    ("uuid_array", t.array_of(t.UUID), "uuid[]", [(UUIDS, "'{" + ",".join(UUIDS) + "}'")]),
    ("bytea_array", t.array_of(t.BYTEA), "bytea[]", [([b"a", b""], "ARRAY['a','']::bytea[]")]),
    ("jsonb_array", t.array_of(t.JSONB), "jsonb[]", [(JSONS[:2], "ARRAY['{}', '{\"a\": 1, \"b\": [1, 2, null]}']::jsonb[]")]),
    ("interval_array", t.array_of(t.INTERVAL), "interval[]", [([interval((14, 3, 1))[0]], "ARRAY[interval '14 months 3 days 1 microsecond']")]),
    ("int8_matrix", t.array_of(t.array_of(t.BIGINT)), "int8[]", [([[1, 2], [3, None], [5, 6]], "'{{1,2},{3,NULL},{5,6}}'"), ([], "'{}'"), ([[7]], "'{{7}}'")]),
]  # fmt: skip


def array(type_: t.SqlType, values: list[Any]) -> pa.Array:
    """The Arrow column of these values; dates and times may be given as integers."""
    arrow = type_.arrow
    raw = {t.Kind.DATE: pa.int32(), t.Kind.TIME: pa.int64(), t.Kind.TIMESTAMP: pa.int64(), t.Kind.TIMESTAMPTZ: pa.int64()}.get(type_.kind)  # fmt: skip
    if raw is not None:
        return pa.array(values, raw).view(arrow)
    return pa.array(values, arrow)


# --- COPY -----------------------------------------------------------------------------------------
COPY_TYPES = [t.INTEGER, t.TEXT, t.DOUBLE, t.BYTEA, t.array_of(t.TEXT)]
COPY_ROWS: list[tuple[Any, ...]] = [
    (i, text, i * 0.5, text.encode(), [text, None]) for i, text in enumerate(TEXTS)
] + [(None,) * 5]
COPY_OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "text": ("", {"format": "text"}),
    "text_odd": (
        "DELIMITER '|', NULL '', HEADER",
        {"format": "text", "delimiter": "|", "null": "", "header": True},
    ),
    "csv": ("FORMAT csv", {"format": "csv", "delimiter": ",", "null": ""}),
    "csv_odd": (
        "FORMAT csv, HEADER, DELIMITER ';', NULL 'a', QUOTE ''''",
        {"format": "csv", "delimiter": ";", "null": "a", "quote": "'", "header": True},
    ),
    "binary": ("FORMAT binary", {"format": "binary"}),
}


def copy_query() -> str:
    """The rows of COPY_ROWS as a SELECT."""
    rows = []
    for i, text in enumerate(TEXTS):
        shown = quoted(text)
        raw = text.encode().hex()
        rows.append(f"({i}, {shown}, {i * 0.5}::float8, '\\x{raw}'::bytea, ARRAY[{shown}, NULL])")
    rows.append("(NULL, NULL, NULL, NULL, NULL)")
    return f'SELECT a, b AS "b,;x", c, d, e FROM (VALUES {", ".join(rows)}) v(a, b, c, d, e)'
