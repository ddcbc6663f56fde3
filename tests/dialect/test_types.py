"""Type names."""

from __future__ import annotations

import pytest

from streamsql.core import types as t
from streamsql.core.errors import (
    FeatureNotSupported,
    InvalidParameterValue,
    SqlSyntaxError,
    UndefinedObject,
)
from streamsql.dialect import parse_type

VARCHAR3 = t.SqlType(t.Kind.VARCHAR, length=3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("int", t.INTEGER), ("INTEGER", t.INTEGER), ("int4", t.INTEGER), ("pg_catalog.int4", t.INTEGER), ("int8", t.BIGINT), ("bigint", t.BIGINT), ("smallint", t.SMALLINT), ("int2", t.SMALLINT), ("tinyint", t.SMALLINT),
        ("real", t.REAL), ("float4", t.REAL), ("float(24)", t.REAL), ("float(25)", t.DOUBLE), ("float", t.DOUBLE), ("double", t.DOUBLE), ("double precision", t.DOUBLE), ("float8", t.DOUBLE),
        ("numeric", t.NUMERIC), ("decimal", t.NUMERIC), ("numeric(10)", t.numeric(10, 0)), ("decimal(10, 2)", t.numeric(10, 2)), ("dec(3,1)", t.numeric(3, 1)),
        ("text", t.TEXT), ("string", t.TEXT), ("varchar", t.VARCHAR), ("varchar(3)", VARCHAR3), ("character varying(3)", VARCHAR3), ("char(3)", VARCHAR3), ("national character varying(3)", VARCHAR3), ("bpchar", t.TEXT), ("varchar(2147483647)", t.VARCHAR),
        ("bytea", t.BYTEA), ("bytes", t.BYTEA), ("boolean", t.BOOLEAN), ("bool", t.BOOLEAN), ("date", t.DATE), ("time", t.TIME), ("time(3) without time zone", t.TIME),
        ("timestamp", t.TIMESTAMP), ("timestamp(3)", t.TIMESTAMP), ("timestamp without time zone", t.TIMESTAMP), ("timestamptz", t.TIMESTAMPTZ), ("timestamp(3) with time zone", t.TIMESTAMPTZ), ("timestamp_ltz(3)", t.TIMESTAMPTZ), ("timestamp(3) with local time zone", t.TIMESTAMPTZ), ("timestamptz(6)", t.TIMESTAMPTZ),
        ("interval", t.INTERVAL), ("interval day to second(3)", t.INTERVAL), ("interval(3)", t.INTERVAL), ("uuid", t.UUID), ("json", t.JSON), ("jsonb", t.JSONB), ("name", t.TEXT),
        ("int[]", t.array_of(t.INTEGER)), ("int[3]", t.array_of(t.INTEGER)), ("int array", t.array_of(t.INTEGER)), ("int array[3]", t.array_of(t.INTEGER)), ("text[][]", t.array_of(t.array_of(t.TEXT))), ("numeric(3,1)[]", t.array_of(t.numeric(3, 1))), ("array<int>", t.array_of(t.INTEGER)),
        ("struct<a int, \"B\" text>", t.struct_of((("a", t.INTEGER), ("B", t.TEXT)))), ("struct(a int)", t.struct_of((("a", t.INTEGER),))), ("row<a int, b array<text>>", t.struct_of((("a", t.INTEGER), ("b", t.array_of(t.TEXT))))), ("struct<a struct<b int>>[]", t.array_of(t.struct_of((("a", t.struct_of((("b", t.INTEGER),))),)))),
        ("map(text, int)", t.map_of(t.TEXT, t.INTEGER)), ("map<string, array<map<int, date>>>", t.map_of(t.TEXT, t.array_of(t.map_of(t.INTEGER, t.DATE)))), ("map[text => int]", t.map_of(t.TEXT, t.INTEGER)),
    ],
)  # fmt: skip
def test_type_name_gives_its_type(text: str, expected: t.SqlType) -> None:
    assert parse_type(text) == expected


def test_every_type_reads_back_from_its_own_name() -> None:
    named = [t.BOOLEAN, t.SMALLINT, t.INTEGER, t.BIGINT, t.REAL, t.DOUBLE, t.NUMERIC, t.numeric(5, 2), t.TEXT, t.VARCHAR, VARCHAR3, t.BYTEA, t.DATE, t.TIME, t.TIMESTAMP,
             t.TIMESTAMPTZ, t.INTERVAL, t.UUID, t.JSON, t.JSONB, t.array_of(t.TIMESTAMPTZ), t.struct_of((("a", t.INTEGER),)), t.map_of(t.TEXT, t.numeric(3, 1))]  # fmt: skip
    for type_ in named:
        assert parse_type(str(type_)) == type_


@pytest.mark.parametrize(
    ("text", "error"),
    [("frobtype", UndefinedObject), ("serial", UndefinedObject), ("numeric(39)", InvalidParameterValue), ("numeric(5, 6)", InvalidParameterValue), ("numeric(0)", InvalidParameterValue), ("varchar(0)", InvalidParameterValue), ("varchar(99999999)", InvalidParameterValue),
     ("time with time zone", FeatureNotSupported), ("", SqlSyntaxError), ("int int", SqlSyntaxError), ("select", SqlSyntaxError), ("int[", SqlSyntaxError), ("map(int)", SqlSyntaxError), ("struct<int>", SqlSyntaxError)],
)  # fmt: skip
def test_type_name_that_is_wrong_raises(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        parse_type(text)


def test_type_unknown_says_what_to_use_instead() -> None:
    with pytest.raises(UndefinedObject, match=r'^type "serial" does not exist$') as caught:
        parse_type("serial")
    assert caught.value.hint == "Use BIGINT, and let the writer give the number."


@pytest.mark.parametrize(("text", "shown", "typmod"), [
    ("interval", "interval", -1), ("interval(2)", "interval(2)", 0x7FFF0002),
    ("interval second", "interval second", 0x1000FFFF), ("INTERVAL SECOND(2)", "interval second(2)", 0x10000002),
    ("interval day to second(3)", "interval day to second(3)", 0x1C080003),
    ("interval year to month", "interval year to month", 0x6FFFF), ("interval day(3)", "interval day", 0x8FFFF),
    ("interval hour to minute[]", "interval hour to minute[]", 0xC00FFFF),
])  # fmt: skip
def test_interval_types_are_called_as_in_postgresql(text: str, shown: str, typmod: int) -> None:
    found = parse_type(text)
    assert (str(found), found.typmod) == (shown, typmod)
    assert str(parse_type(str(found))) == shown
