"""Formats: good rows typed exactly, bad rows listed with their place, nothing lost in between."""

from __future__ import annotations

import datetime as dt
import decimal

import pytest

from streamsql.connectors.base import Options
from streamsql.connectors.formats.base import TextFormat
from streamsql.connectors.formats.csv import CsvFormat
from streamsql.connectors.formats.json import JsonFormat
from streamsql.core.errors import InvalidParameterValue
from streamsql.core.schema import Schema
from streamsql.core.types import (
    BIGINT,
    BOOLEAN,
    BYTEA,
    DATE,
    DOUBLE,
    INTEGER,
    JSONB,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    SqlType,
    array_of,
    map_of,
    numeric,
    struct_of,
)


def parse(format_: TextFormat, data: bytes):
    ends = format_.record_ends(data)
    assert not len(ends) or ends[-1] == len(data)
    parsed = format_.parse(data, ends)
    parsed.batch.validate(full=True)
    assert parsed.batch.num_rows == len(parsed.records)
    return parsed


def rows(parsed) -> list[tuple]:
    return [tuple(r.values()) for r in parsed.batch.to_pylist()]


def csv(schema: Schema, **options: str) -> CsvFormat:
    return CsvFormat(schema, Options("file", options, {}))


def json(schema: Schema, **options: str) -> JsonFormat:
    return JsonFormat(schema, Options("file", options, {}))


AB = Schema.of(("a", INTEGER), ("b", TEXT))


# --- csv ------------------------------------------------------------------------------------------
def test_csv_keeps_line_feeds_and_doubled_quotes_inside_quotes():
    parsed = parse(csv(AB), b'1,"x\ny"\n2,"a""b,c"\n')
    assert rows(parsed) == [(1, "x\ny"), (2, 'a"b,c')]


def test_csv_unquoted_empty_field_is_null_and_quoted_one_is_not():
    assert rows(parse(csv(AB), b'1,\n2,""\n,x\n')) == [(1, None), (2, ""), (None, "x")]


def test_csv_null_text_delimiter_quote_and_carriage_returns():
    format_ = csv(AB, null="NA", delimiter="\\t", quote="'")
    assert rows(parse(format_, b"NA\t'x\ty'\r\n7\tNA\r\n")) == [(None, "x\ty"), (7, None)]


def test_csv_bad_rows_are_listed_and_the_good_ones_go_on():
    parsed = parse(csv(AB), b'1,2\nx,3\n1,2,3\n\r\n\n7,"a"\n5,\xff\n6\n6,7\n')
    assert rows(parsed) == [(1, "2"), (7, "a"), (6, "7")]
    assert parsed.records.tolist() == [0, 5, 8]
    assert [(b.record, b.payload) for b in parsed.bad] == [
        (1, "x,3"), (2, "1,2,3"), (6, "5,\ufffd"), (7, "6"),
    ]  # fmt: skip
    assert parsed.bad[0].reason == 'invalid input syntax for type integer: "x" in column "a"'
    assert "extra data" in parsed.bad[1].reason
    assert "UTF8" in parsed.bad[2].reason
    assert "missing data" in parsed.bad[3].reason


def test_csv_header_maps_columns_by_name_without_regard_to_case():
    format_ = csv(AB, header="true")
    data = b"B,zzz,a\nx,1,2\n"
    assert format_.header_end(data, format_.record_ends(data)) == 8
    format_.read_header(data[:8])
    assert rows(parse(format_, data[8:])) == [(2, "x")]


def test_csv_header_that_names_no_column_is_refused():
    with pytest.raises(InvalidParameterValue, match="header"):
        csv(AB, header="true").read_header(b"x,y\n")


def test_csv_reads_every_type():
    schema = Schema.of(
        ("b", BOOLEAN), ("n", numeric(10, 2)), ("d", DATE), ("t", TIME), ("ts", TIMESTAMP),
        ("tz", TIMESTAMPTZ), ("u", UUID), ("x", BYTEA), ("f", DOUBLE),
    )  # fmt: skip
    line = (
        b"t,12.345,2024-02-29,10:11:12.5,2024-01-01T00:00:00Z,2024-01-01 02:00:00+02,"
        b"A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11,\\x0aff,1e3\n"
    )
    assert rows(parse(csv(schema), line)) == [
        (
            True, decimal.Decimal("12.35"), dt.date(2024, 2, 29), dt.time(10, 11, 12, 500000),
            dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", b"\x0a\xff", 1000.0,
        )
    ]  # fmt: skip


def test_csv_of_nothing_gives_an_empty_batch():
    parsed = csv(AB).parse(b"", csv(AB).record_ends(b""))
    assert parsed.batch.num_rows == 0
    assert parsed.batch.schema == AB.arrow


def test_csv_many_bad_rows_do_not_take_quadratic_time():
    data = b"".join(b"%d,x\n" % i if i % 2 else b"no,x\n" for i in range(20_000))
    parsed = parse(csv(AB), data)
    assert parsed.batch.num_rows == 10_000
    assert [b.record for b in parsed.bad] == list(range(0, 20_000, 2))


# --- json -----------------------------------------------------------------------------------------
def test_json_reads_nested_columns():
    schema = Schema.of(
        ("id", TEXT),
        ("s", struct_of((("x", INTEGER), ("y", array_of(TEXT))))),
        ("m", map_of(TEXT, INTEGER)),
        ("a", array_of(array_of(INTEGER))),
    )
    line = b'{"id":7,"s":{"x":1,"y":["p",null]},"m":{"k":1},"a":[[1],[]],"more":{}}\n'
    assert rows(parse(json(schema), line)) == [
        ("7", {"x": 1, "y": ["p", None]}, [("k", 1)], [[1], []])
    ]


def test_json_normalises_jsonb_and_keeps_json():
    schema = Schema.of(("j", SqlType(JSONB.kind)), ("k", TEXT))
    parsed = parse(json(schema), b'{"j":{"bb":1,"a":[1, 2]},"k":{"z": 1}}\n')
    assert rows(parsed) == [('{"a": [1, 2], "bb": 1}', '{"z":1}')]


def test_json_timestamps_come_from_text_or_from_epoch_milliseconds():
    schema = Schema.of(("t", TIMESTAMP), ("z", TIMESTAMPTZ), ("n", BIGINT))
    data = (
        b'{"t":"2024-01-01T00:00:00.5Z","z":"2024-01-01 01:00:00+01","n":5}\n'
        b'{"t":1704067200000,"z":1704067200000,"n":1704067200000}\n'
    )
    day = dt.datetime(2024, 1, 1)
    assert rows(parse(json(schema), data)) == [
        (day + dt.timedelta(milliseconds=500), day.replace(tzinfo=dt.UTC), 5),
        (day, day.replace(tzinfo=dt.UTC), 1704067200000),
    ]


def test_json_timestamp_unit_is_an_option():
    schema = Schema.of(("t", TIMESTAMP))
    parsed = parse(json(schema, timestamp_unit="s"), b'{"t":1704067200}\n')
    assert rows(parsed) == [(dt.datetime(2024, 1, 1),)]


def test_json_missing_keys_and_nulls_are_null():
    assert rows(parse(json(AB), b'{"a":1}\n{"b":null}\n{}\n')) == [
        (1, None), (None, None), (None, None),
    ]  # fmt: skip


def test_json_folded_column_name_finds_its_key():
    schema = Schema.of(("datetime", BIGINT), ("a", INTEGER))
    format_ = json(schema)
    assert rows(parse(format_, b'{"a":1}\n')) == [(None, 1)]
    assert rows(parse(format_, b'{"dateTime":5,"a":1}\n')) == [(5, 1)]


def test_json_paths_reach_into_documents():
    schema = Schema.of(("mag", DOUBLE), ("place", TEXT), ("doc", TEXT))
    format_ = json(schema, **{"path.mag": "$.p.mag", "path.place": "p.place", "path.doc": "$"})
    line = b'{"p":{"mag":2.5,"place":"here"}}'
    assert rows(parse(format_, line + b"\n")) == [(2.5, "here", line.decode())]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"a":1', "invalid input syntax for type json"),
        (b"garbage", "invalid input syntax for type json"),
        (b"[1,2]", "not an object"),
        (b"3", "not an object"),
        (b'{"a":"x","b":"y"}', 'invalid input syntax for type integer: "x" in column "a"'),
        (b'{"a":99999999999}', 'invalid input syntax for type integer: "99999999999"'),
        (b'{"a":{"q":1}}', "invalid input syntax for type integer"),
        (b'{"a":1,"b":"\xff"}', "UTF8"),
    ],
)
def test_json_bad_document_is_listed_and_its_neighbours_go_on(line: bytes, reason: str):
    parsed = parse(json(AB), b'{"a":1,"b":"p"}\n' + line + b'\n\n{"a":2,"b":"q"}\n')
    assert rows(parsed) == [(1, "p"), (2, "q")]
    assert parsed.records.tolist() == [0, 3]
    assert [(b.record, reason in b.reason) for b in parsed.bad] == [(1, True)]


def test_json_wrong_value_deep_inside_makes_the_row_bad():
    schema = Schema.of(("s", struct_of((("x", INTEGER),))), ("l", array_of(INTEGER)))
    data = (
        b'{"s":{"x":1},"l":[1,null]}\n{"s":{"x":"q"},"l":[]}\n{"s":{},"l":["q"]}\n{"s":null}\n'
        b'{"s":5}\n'
    )
    parsed = parse(json(schema), data)
    assert parsed.records.tolist() == [0, 3]
    assert [b.record for b in parsed.bad] == [1, 2, 4]


def test_json_unknown_option_is_refused():
    options = Options("file", {"heder": "true"}, {})
    JsonFormat(AB, options)
    with pytest.raises(InvalidParameterValue, match="heder"):
        options.finish()
