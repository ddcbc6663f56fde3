"""Text input and output of columns: PostgreSQL's forms and errors, vectorised."""

from __future__ import annotations

import random
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsql.core import errors
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
    Kind,
    SqlType,
    array_of,
    map_of,
    numeric,
    struct_of,
)  # fmt: skip
from streamsql.functions.textio import json_text, parse_text, to_text
from streamsql.functions.textio.json_column import normalise
from streamsql.functions.textio.json_output import to_json

TEXTS = pa.string()


def read(texts: list[str | None], t: SqlType, timezone: str = "UTC") -> pa.Array:
    found = parse_text(pa.array(texts, TEXTS), t, timezone)
    assert found.type == t.arrow
    found.validate(full=True)
    return found


def round_trip(texts: list[str | None], t: SqlType, timezone: str = "UTC") -> list[str | None]:
    return to_text(read(texts, t, timezone), t, timezone).to_pylist()


# (type, what is written, what comes back)
FORMS = [
    (BOOLEAN, ["t", "off", "YES", " true ", None, "0"], ["t", "f", "t", "t", None, "f"]),
    (SMALLINT, ["-32768", "+7", " 1 "], ["-32768", "7", "1"]),
    (INTEGER, ["1", None, "-0", "007"], ["1", None, "0", "7"]),
    (BIGINT, ["9223372036854775807", "-9223372036854775808"], None),
    (DOUBLE, ["1", "1e15", "1e-5", "NaN", "-inf", "0.1", "1e22", "-0", "5e-324"],
     ["1", "1e+15", "1e-05", "NaN", "-Infinity", "0.1", "1e+22", "-0", "5e-324"]),
    (REAL, ["0.1", "1e6", "123456", "3.4028235e38"], ["0.1", "1e+06", "123456", "3.4028235e+38"]),
    (NUMERIC, ["1.50", "-3e2", "0.00000000005", None, "1e-20"], ["1.5", "-300", "0.0000000001", None, "0"]),
    (numeric(6, 2), ["1.005", "-1.005", "12", "9999.994"], ["1.01", "-1.01", "12.00", "9999.99"]),
    (numeric(38, 0), ["9" * 38, "-" + "9" * 38], None),
    (TEXT, ["", "a b", None], None),
    (SqlType(Kind.VARCHAR, length=3), ["abc", "ab   "], ["abc", "ab "]),
    (BYTEA, ["\\xDEad", "a\\\\b\\001"], ["\\xdead", "\\x615c6201"]),
    (DATE, ["2020-02-29", "Jan 5, 2020", "1/2/2021", "20200301", "0044-03-15 BC", "infinity", "12020-01-01"],
     ["2020-02-29", "2020-01-05", "2021-01-02", "2020-03-01", "0044-03-15 BC", "infinity", "12020-01-01"]),
    (TIME, ["04:05", "04:05:06.789", "04:05 PM", "040506"],
     ["04:05:00", "04:05:06.789", "16:05:00", "04:05:06"]),
    (TIMESTAMP, ["2020-02-29 12:00:00.5", "2020-02-29", "2020-02-29T01:02:03Z", "epoch", "-infinity"],
     ["2020-02-29 12:00:00.5", "2020-02-29 00:00:00", "2020-02-29 01:02:03", "1970-01-01 00:00:00", "-infinity"]),
    (TIMESTAMPTZ, ["2020-02-29 12:00:00+05:30", "2020-02-29 12:00 Europe/Paris", "2020-02-29 12:00:00-08"],
     ["2020-02-29 06:30:00+00", "2020-02-29 11:00:00+00", "2020-02-29 20:00:00+00"]),
    (INTERVAL, ["1 year 2 mons 3 days 04:05:06.5", "P1Y2M3DT4H5M6S", "-1 mon +2 days", "1 day ago", "1-2", "90"],
     ["1 year 2 mons 3 days 04:05:06.5", "1 year 2 mons 3 days 04:05:06", "-1 mons +2 days", "-1 days",
      "1 year 2 mons", "00:01:30"]),
    (UUID, ["A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "{a0eebc999c0b4ef8bb6d6bb9bd380a11}"],
     ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"] * 2),
    (JSON, ['{"b":1, "a":2}', " [1] "], None),
    (JSONB, ['{"b":1,"aa":[1,2.50,null],"a":2,"a":3}', '"\\u00e9\\/"', "1E2", "-0.0"],
     ['{"a": 3, "b": 1, "aa": [1, 2.50, null]}', '"é/"', "100", "0.0"]),
    (array_of(INTEGER), ["{1,NULL,3}", "{}", None, "{ 1 , 2 }"], ["{1,NULL,3}", "{}", None, "{1,2}"]),
    (array_of(TEXT), ['{a,"b c",NULL,"NULL","",q\\"x}'], ['{a,"b c",NULL,"NULL","","q\\"x"}']),
    (array_of(array_of(INTEGER)), ["{{1,2},{3,4}}"], None),
    (struct_of((("bb", INTEGER), ("a", array_of(TEXT)))), ['{"bb": 1, "a": ["x"]}', None],
     ['{"a": ["x"], "bb": 1}', None]),
    (map_of(TEXT, INTEGER), ['{"b": 1, "a": null}'], ['{"a": null, "b": 1}']),
]  # fmt: skip


@pytest.mark.parametrize(
    ("t", "texts", "back"), FORMS, ids=lambda v: str(v) if isinstance(v, SqlType) else ""
)
def test_text_forms_are_read_and_written_as_postgresql_does(
    t: SqlType, texts: list[str | None], back: list[str | None] | None
) -> None:
    assert round_trip(texts, t) == (texts if back is None else back)
    for one, expected in zip(texts, texts if back is None else back, strict=True):
        assert round_trip([one], t) == [expected]  # alone it may take another way


def test_midnight_at_the_end_of_the_day_is_a_time_of_its_own() -> None:
    column = parse_text(pa.array(["24:00", "00:00"], TEXTS), TIME)
    assert to_text(column, TIME).to_pylist() == ["24:00:00", "00:00:00"]


BAD = [
    (INTEGER, "x", "22P02", 'invalid input syntax for type integer: "x"'),
    (INTEGER, "", "22P02", 'invalid input syntax for type integer: ""'),
    (INTEGER, "1.5", "22P02", 'invalid input syntax for type integer: "1.5"'),
    (INTEGER, "2147483648", "22003", 'value "2147483648" is out of range for type integer'),
    (SMALLINT, "-32769", "22003", 'value "-32769" is out of range for type smallint'),
    (BOOLEAN, "maybe", "22P02", 'invalid input syntax for type boolean: "maybe"'),
    (DOUBLE, "1e400", "22003", '"1e400" is out of range for type double precision'),
    (DOUBLE, "1e-400", "22003", '"1e-400" is out of range for type double precision'),
    (DOUBLE, "1,5", "22P02", 'invalid input syntax for type double precision: "1,5"'),
    (NUMERIC, "abc", "22P02", 'invalid input syntax for type numeric: "abc"'),
    (NUMERIC, "1" * 29, "22003", "value overflows numeric format"),
    (numeric(4, 2), "100", "22003", "numeric field overflow"),
    (DATE, "2021-02-29", "22008", 'date/time field value out of range: "2021-02-29"'),
    (DATE, "foo", "22007", 'invalid input syntax for type date: "foo"'),
    (TIME, "25:00", "22008", 'date/time field value out of range: "25:00"'),
    (TIMESTAMP, "2020-13-01 00:00:00", "22008", 'date/time field value out of range: "2020-13-01 00:00:00"'),
    (TIMESTAMPTZ, "2020-01-01 Nowhere/Land", "22023", 'time zone "nowhere/land" not recognized'),
    (INTERVAL, "1 foo", "22007", 'invalid input syntax for type interval: "1 foo"'),
    (UUID, "zzz", "22P02", 'invalid input syntax for type uuid: "zzz"'),
    (BYTEA, "\\xabc", "22023", "invalid hexadecimal data: odd number of digits"),
    (JSONB, "{broken", "22P02", "invalid input syntax for type json"),
    (JSON, "[1,]", "22P02", "invalid input syntax for type json"),
    (array_of(INTEGER), "{1,x}", "22P02", 'invalid input syntax for type integer: "x"'),
    (array_of(INTEGER), "1,2", "22P02", 'malformed array literal: "1,2"'),
    (array_of(INTEGER), "{1,2", "22P02", 'malformed array literal: "{1,2"'),
    (SqlType(Kind.VARCHAR, length=2), "abc", "22001", "value too long for type character varying(2)"),
]  # fmt: skip


@pytest.mark.parametrize(("t", "text", "sqlstate", "message"), BAD)
def test_bad_text_has_postgresql_s_error(
    t: SqlType, text: str, sqlstate: str, message: str
) -> None:
    for column in ([text], [None, text, text]):
        with pytest.raises(errors.StreamSqlError) as raised:
            parse_text(pa.array(column, TEXTS), t)
        assert (raised.value.sqlstate, raised.value.message) == (sqlstate, message)


def test_first_bad_row_is_the_one_reported() -> None:
    with pytest.raises(errors.InvalidTextRepresentation, match='"b"'):
        parse_text(pa.array(["1", "b", "99999999999", "a"], TEXTS), INTEGER)


def test_numeric_overflow_has_detail() -> None:
    with pytest.raises(errors.NumericValueOutOfRange) as raised:
        parse_text(pa.array(["123"], TEXTS), numeric(4, 2))
    assert raised.value.detail == (
        "A field with precision 4, scale 2 must round to an absolute value less than 10^2."
    )


ZONES = [
    ("Europe/Paris", "2020-07-01 14:00:00+02"), ("America/New_York", "2020-07-01 08:00:00-04"),
    ("Asia/Kolkata", "2020-07-01 17:30:00+05:30"), ("UTC", "2020-07-01 12:00:00+00"),
    ("+03", "2020-07-01 15:00:00+03"), ("America/St_Johns", "2020-07-01 09:30:00-02:30"),
]  # fmt: skip


@pytest.mark.parametrize(("zone", "text"), ZONES)
def test_timestamptz_is_written_and_read_in_the_session_zone(zone: str, text: str) -> None:
    instant = read(["2020-07-01 12:00:00+00"], TIMESTAMPTZ)
    assert to_text(instant, TIMESTAMPTZ, zone).to_pylist() == [text]
    local = text[:19]
    assert read([local], TIMESTAMPTZ, zone).equals(instant)


def test_slices_and_chunks_are_written_like_whole_columns() -> None:
    for t, texts, _ in FORMS:
        column = read([None, *texts, *texts], t)
        shown = to_text(column, t).to_pylist()
        assert to_text(column.slice(2), t).to_pylist() == shown[2:]
        chunked = pa.chunked_array([column.slice(0, 1), column.slice(1)], type=column.type)
        assert to_text(chunked, t).to_pylist() == shown
        assert to_text(column.slice(0, 0), t).to_pylist() == []


@given(st.lists(st.floats(allow_nan=False, width=64), max_size=30))
@settings(max_examples=60, deadline=None)
def test_float_text_reads_back_to_the_same_float(values: list[float]) -> None:
    column = pa.array(values, pa.float64())
    text = to_text(column, DOUBLE)
    assert [float(t) for t in text.to_pylist()] == values
    for shown in text.to_pylist():
        assert "E" not in shown and not shown.endswith(".0")


@given(
    st.lists(
        st.decimals(
            allow_nan=False, allow_infinity=False, places=4, min_value=-(10**14), max_value=10**14
        )
    )
)
@settings(max_examples=60, deadline=None)
def test_numeric_text_has_all_decimals_of_its_type(values: list[Decimal]) -> None:
    t = numeric(20, 4)
    assert to_text(pa.array(values, t.arrow), t).to_pylist() == [f"{v + 0:.4f}" for v in values]


def _document(rng: random.Random, depth: int = 0) -> object:
    kind = rng.random()
    if depth > 3 or kind < 0.45:
        return rng.choice([1, -5, 0, 1.5, "x", 'é"q\n', None, True, False, "", 10**20, 1e-7, -0.0])
    if kind < 0.7:
        return [_document(rng, depth + 1) for _ in range(rng.randrange(4))]
    keys = ["a", "b", "bb", "c", "é", "x y", 'q"']
    return {rng.choice(keys): _document(rng, depth + 1) for _ in range(rng.randrange(5))}


def test_json_byte_loop_gives_what_the_parser_gives_or_steps_aside() -> None:
    import json

    rng = random.Random(4)
    texts = []
    for _ in range(1500):
        separators = rng.choice([(",", ":"), (", ", ": "), (" ,\n", " : ")])
        document = _document(rng)
        texts.append(json.dumps(document, ensure_ascii=rng.random() < 0.5, separators=separators,
                                sort_keys=rng.random() < 0.7))  # fmt: skip
    texts += ['{"a":1,"a":2}', '{"b":1,"a":2}', "[1,2,]", '{"a"}', '{"a":}', "nul", "01", "1.", "-",
              "1e5", '{"a":1}x', "", "  ", "[", "]", "{}", "[ ]", '"a', '"\t"', "[1 2]", "{,}"]  # fmt: skip
    done, hard = normalise(pa.array(texts, TEXTS))
    assert not hard.all()
    for text, found, skipped in zip(texts, done.to_pylist(), hard, strict=True):
        try:
            expected = json_text.normalise(text)
        except errors.InvalidTextRepresentation:
            assert skipped, text
            continue
        assert skipped or found == expected


def test_to_json_of_every_type() -> None:
    forms = [
        (BOOLEAN, "t", "true"), (INTEGER, "5", "5"), (NUMERIC, "1.5", "1.5"), (DOUBLE, "1e20", "100000000000000000000"),
        (DOUBLE, "NaN", '"NaN"'), (TEXT, 'a"b\\c\x01', '"a\\"b\\\\c\\u0001"'), (DATE, "2020-01-05", '"2020-01-05"'),
        (TIMESTAMP, "2020-01-05 10:00:00.5", '"2020-01-05T10:00:00.5"'),
        (TIMESTAMPTZ, "2020-01-05 10:00:00+00", '"2020-01-05T10:00:00+00:00"'),
        (array_of(TEXT), "{a,NULL}", '["a", null]'), (JSONB, '{"a":1}', '{"a": 1}'), (INTERVAL, "1 day", '"1 day"'),
    ]  # fmt: skip
    for t, text, expected in forms:
        value = pa.array([text, None], TEXTS) if t is TEXT else read([text, None], t)
        assert to_json(value, t).to_pylist() == [expected, "null"]
