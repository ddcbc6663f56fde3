"""What we encode is what PostgreSQL 15 sends, byte for byte (`golden/wire_values.json`)."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from streamsql_server.encoding.copy_rows import CopyEncoder
from streamsql_server.encoding.registry import WIRE_TYPES, wire_type, wire_type_of
from streamsql_server.encoding.rows import BINARY, FEW_ROWS, TEXT, RowEncoder
from streamsql_server.encoding.wire_type import WireContext

from streamsql.core import types as t
from streamsql.core.errors import ArraySubscriptError, FeatureNotSupported
from streamsql.engine.api import CopyOut, ResultColumn
from tests.server.golden.wire_cases import CASES, COPY_OPTIONS, COPY_ROWS, COPY_TYPES, array

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parent / "golden" / "wire_values.json").read_text()
)
PARIS = WireContext(timezone="Europe/Paris")


def split_rows(data: bytes) -> list[list[bytes | None]]:
    """DataRow messages back to values, checking every length on the way."""
    rows, at = [], 0
    while at < len(data):
        assert data[at : at + 1] == b"D"
        size, count = struct.unpack_from("!ih", data, at + 1)
        end, row = at + 1 + size, []
        at += 7
        for _ in range(count):
            (length,) = struct.unpack_from("!i", data, at)
            at += 4
            row.append(None if length < 0 else data[at : at + length])
            at += max(length, 0)
        assert at == end
        rows.append(row)
    return rows


def encode(
    columns: list[pa.Array], types: list[t.SqlType], formats: list[int]
) -> list[list[bytes | None]]:
    result_columns = [ResultColumn(f"x{i}", type_) for i, type_ in enumerate(types)]
    encoder = RowEncoder(result_columns, formats, PARIS)
    batch = pa.RecordBatch.from_arrays(columns, [f"c{i}" for i in range(len(columns))])
    return split_rows(b"".join(bytes(chunk) for chunk in encoder.encode(batch)))


def expected(name: str, format_: int) -> list[bytes]:
    values = GOLDEN[name]["values"]
    if format_ == TEXT:
        return [value["text"].encode() for value in values]
    return [bytes.fromhex(value["binary"]) for value in values]


@pytest.mark.parametrize("format_", [TEXT, BINARY], ids=["text", "binary"])
@pytest.mark.parametrize("repeat", [1, FEW_ROWS], ids=["few_rows", "many_rows"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_type_is_encoded_as_postgres_does(case: Any, repeat: int, format_: int) -> None:
    name, type_, _, values = case
    column = array(type_, [value for value, _ in values] * repeat)
    got = encode([column], [type_], [format_])
    assert got == [[value] for value in expected(name, format_) * repeat]


@pytest.mark.parametrize("format_", [TEXT, BINARY], ids=["text", "binary"])
@pytest.mark.parametrize("repeat", [1, FEW_ROWS], ids=["few_rows", "many_rows"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_type_keeps_nulls_and_slices(case: Any, repeat: int, format_: int) -> None:
    name, type_, _, values = case
    mixed = [None, *(x for value, _ in values for x in (value, None))]
    want = [None, *(x for value in expected(name, format_) for x in (value, None))]
    column = array(type_, mixed * repeat)
    assert encode([column], [type_], [format_]) == [[value] for value in want * repeat]
    part = column.slice(1, len(column) - 2)
    assert encode([part], [type_], [format_]) == [[value] for value in (want * repeat)[1:-1]]
    nothing = pa.nulls(len(column), type_.arrow)
    assert encode([nothing], [type_], [format_]) == [[None]] * len(column)


@pytest.mark.parametrize("repeat", [1, FEW_ROWS], ids=["few_rows", "many_rows"])
def test_all_types_side_by_side_in_mixed_formats(repeat: int) -> None:
    columns, types, formats, want = [], [], [], []
    for i, (name, type_, _, values) in enumerate(CASES):
        format_ = i % 2
        columns.append(array(type_, [values[0][0], None] * repeat))
        types.append(type_)
        formats.append(format_)
        want.append(expected(name, format_)[0])
    rows = encode(columns, types, formats)
    assert rows == [want, [None] * len(want)] * repeat


@pytest.mark.parametrize("name", [case[0] for case in CASES])
def test_oid_and_typmod_are_those_of_postgres(name: str) -> None:
    type_ = next(case[1] for case in CASES if case[0] == name)
    assert type_.oid == GOLDEN[name]["oid"]
    if type_.kind is not t.Kind.ARRAY:
        assert type_.typmod == GOLDEN[name]["typmod"]


# arrays of other elements are covered by the elements' own types
PARSED = [
    case
    for case in CASES
    if case[1].kind is not t.Kind.ARRAY or case[0] in ("int4_array", "text_array", "bool_array")
]


@pytest.mark.parametrize("case", PARSED, ids=lambda case: case[0])
def test_binary_parameter_reads_back(case: Any) -> None:
    name, type_, _, values = case
    parse = wire_type_of(type_).parse_binary
    texts = [value["text"] for value in GOLDEN[name]["values"]]
    got = [parse(raw) for raw in expected(name, BINARY)]
    if type_.kind is t.Kind.INTERVAL:
        assert got == [
            f"{v.months} months {v.days} days {v.nanoseconds // 1000} microseconds"
            for v, _ in values
        ]
        return
    if type_.kind in (t.Kind.NUMERIC, t.Kind.UUID, t.Kind.JSONB):
        assert [format(v, "f") if type_.kind is t.Kind.NUMERIC else v for v in got] == texts
        return
    plain = [value if not isinstance(value, str) else None for value in got]
    column = array(type_, [value for value, _ in values])
    for got_value, text, raw in zip(got, texts, column, strict=True):
        if isinstance(got_value, str) and type_.kind not in (
            t.Kind.TEXT,
            t.Kind.VARCHAR,
            t.Kind.JSON,
        ):
            assert got_value == text or type_.kind is t.Kind.TIMESTAMPTZ  # infinity, BC, > 9999
        elif got_value == got_value:  # not NaN
            assert got_value == raw.as_py()
    assert len(plain) == len(values)


def test_struct_and_map_travel_as_json() -> None:
    inner = t.array_of(t.TEXT)
    type_ = t.struct_of(
        (("a", t.INTEGER), ('q"', t.TEXT), ("l", inner), ("f", t.DOUBLE), ("t", t.TIMESTAMPTZ))
    )
    import datetime as dt

    value = {
        "a": 1, 'q"': 'x"\n\x01\\', "l": ["p", None], "f": float("nan"),
        "t": dt.datetime(2024, 7, 1, tzinfo=dt.UTC),
    }  # fmt: skip
    [[text]] = encode([pa.array([value], type_.arrow)], [type_], [TEXT])
    assert text is not None
    assert json.loads(text) == {
        "a": 1, 'q"': 'x"\n\x01\\', "l": ["p", None], "f": "NaN", "t": "2024-07-01T02:00:00+02:00",
    }  # fmt: skip
    map_type = t.map_of(t.TEXT, t.INTEGER)
    column = pa.array([[("k", 1), ("z", None)], None, []], map_type.arrow)
    assert encode([column], [map_type], [TEXT]) == [[b'{"k": 1, "z": null}'], [None], [b"{}"]]
    assert encode([column], [map_type], [BINARY]) == [
        [b'\x01{"k": 1, "z": null}'],
        [None],
        [b"\x01{}"],
    ]


def test_ragged_array_has_no_binary_form() -> None:
    type_ = t.array_of(t.array_of(t.INTEGER))
    column = pa.array([[[1], [2, 3]]], type_.arrow)
    assert encode([column], [type_], [TEXT]) == [[b"{{1},{2,3}}"]]
    with pytest.raises(ArraySubscriptError):
        encode([column], [type_], [BINARY])


def test_type_without_binary_form_is_refused() -> None:
    for oid in (1033, 999_999):
        column = ResultColumn("acl", t.TEXT, oid=oid)
        with pytest.raises(FeatureNotSupported):
            RowEncoder([column], [BINARY], PARIS)
        RowEncoder([column], [TEXT], PARIS)


def test_catalog_types_use_their_own_forms() -> None:
    oid = ResultColumn("oid", t.BIGINT, oid=26)
    vector = ResultColumn("indkey", t.array_of(t.SMALLINT), oid=22)
    name = ResultColumn("relname", t.TEXT, oid=19)
    batch = pa.RecordBatch.from_arrays(
        [pa.array([4_000_000_000]), pa.array([[1, 2]], pa.list_(pa.int16())), pa.array(["t"])],
        ["c0", "c1", "c2"],
    )
    text = RowEncoder([oid, vector, name], [TEXT] * 3, PARIS)
    binary = RowEncoder([oid, vector, name], [BINARY] * 3, PARIS)
    assert split_rows(b"".join(text.encode(batch))) == [[b"4000000000", b"1 2", b"t"]]
    head = struct.pack("!iiIii", 1, 0, 21, 2, 0)
    body = struct.pack("!ihih", 2, 1, 2, 2)
    assert split_rows(b"".join(binary.encode(batch))) == [
        [struct.pack("!I", 4_000_000_000), head + body, b"t"]
    ]


def test_registry_has_every_oid_once_and_every_sql_type() -> None:
    oids = [w.oid for w in WIRE_TYPES] + [w.array_oid for w in WIRE_TYPES if w.array_oid]
    assert len(oids) == len(set(oids))
    for kind in t.Kind:
        if kind is not t.Kind.ARRAY:
            assert wire_type(t.SqlType(kind).oid) is not None


def test_rows_without_columns_are_counted() -> None:
    batch = pa.RecordBatch.from_arrays([pa.nulls(60)], ["x"]).select([])
    encoder = RowEncoder([], [], PARIS)
    assert split_rows(b"".join(bytes(c) for c in encoder.encode(batch))) == [[]] * 60
    assert split_rows(b"".join(bytes(c) for c in encoder.encode(batch.slice(0, 3)))) == [[]] * 3


def test_large_batch_is_cut_into_chunks() -> None:
    column = pa.array(["x" * 1000] * 5000)
    encoder = RowEncoder([ResultColumn("x", t.TEXT)], [TEXT], PARIS)
    chunks = list(encoder.encode(pa.RecordBatch.from_arrays([column], ["c0"])))
    assert len(chunks) > 5
    assert max(len(chunk) for chunk in chunks) < 2 << 20
    assert sum(len(split_rows(bytes(chunk))) for chunk in chunks) == 5000


def copied(name: str, repeat: int = 1) -> list[bytes]:
    """The bodies of all CopyData messages."""
    copy = CopyOut(**COPY_OPTIONS[name][1])
    names = ["a", "b,;x", "c", "d", "e"]
    columns = [ResultColumn(n, type_) for n, type_ in zip(names, COPY_TYPES, strict=True)]
    encoder = CopyEncoder(copy, columns, PARIS)
    arrays = [
        array(type_, [row[i] for row in COPY_ROWS] * repeat) for i, type_ in enumerate(COPY_TYPES)
    ]
    batch = pa.RecordBatch.from_arrays(arrays, [f"c{i}" for i in range(len(arrays))])
    data = encoder.header() + b"".join(bytes(c) for c in encoder.encode(batch)) + encoder.finish()
    bodies, at = [], 0
    while at < len(data):
        assert data[at : at + 1] == b"d"
        (size,) = struct.unpack_from("!i", data, at + 1)
        bodies.append(data[at + 5 : at + 1 + size])
        at += 1 + size
    return bodies


@pytest.mark.parametrize("name", COPY_OPTIONS)
def test_copy_sends_the_bytes_of_postgres(name: str) -> None:
    want = [bytes.fromhex(piece) for piece in GOLDEN["copy"][name]]
    got = copied(name)
    assert b"".join(got) == b"".join(want)
    head = 1 if COPY_OPTIONS[name][1].get("header") else 0
    repeated = copied(name, FEW_ROWS)
    assert len(repeated) == head + len(COPY_ROWS) * FEW_ROWS + (name == "binary")


@pytest.mark.parametrize("format_", ["text", "csv", "binary"])
def test_copy_of_no_rows(format_: str) -> None:
    encoder = CopyEncoder(CopyOut(format_), [ResultColumn("a", t.TEXT)], PARIS)
    empty = pa.RecordBatch.from_arrays([pa.array([], pa.string())], ["c0"])
    data = encoder.header() + b"".join(encoder.encode(empty)) + encoder.finish()
    head = b"PGCOPY\n\xff\r\n\0" + bytes(8) + b"\xff\xff"
    assert data == (b"d" + struct.pack("!i", 4 + len(head)) + head if format_ == "binary" else b"")


def test_lone_backslash_dot_is_quoted_in_csv() -> None:
    encoder = CopyEncoder(
        CopyOut("csv", delimiter=",", null=""), [ResultColumn("a", t.TEXT)], PARIS
    )
    batch = pa.RecordBatch.from_arrays([pa.array(["\\.", "", "x"])], ["c0"])
    data = b"".join(bytes(c) for c in encoder.encode(batch))
    assert [part for part in data.split(b"\n") if part] == [
        b'd\0\0\0\x09"\\."', b'd\0\0\0\x07""', b"d\0\0\0\x06x",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("zone", "utc", "shown"),
    [
        ("UTC", "2024-07-01 12:00:00", "2024-07-01 12:00:00+00"),
        ("Asia/Kolkata", "2024-07-01 12:00:00", "2024-07-01 17:30:00+05:30"),
        ("America/St_Johns", "2024-07-01 12:00:00.5", "2024-07-01 09:30:00.5-02:30"),
        ("America/New_York", "2024-03-10 06:59:59", "2024-03-10 01:59:59-05"),
        ("America/New_York", "2024-03-10 07:00:00", "2024-03-10 03:00:00-04"),
        ("America/New_York", "2050-07-01 00:00:00", "2050-06-30 20:00:00-04"),
        ("Australia/Lord_Howe", "2024-12-31 14:00:00", "2025-01-01 01:00:00+11"),
        ("America/New_York", "1870-01-01 12:00:00", "1870-01-01 07:03:58-04:56:02"),
        ("+02", "2024-07-01 12:00:00", "2024-07-01 14:00:00+02"),
        ("-05:30", "2024-07-01 12:00:00", "2024-07-01 06:30:00-05:30"),
        ("europe/paris", "2024-07-01 12:00:00", "2024-07-01 14:00:00+02"),
    ],
)
def test_timestamptz_follows_the_session_zone(zone: str, utc: str, shown: str) -> None:
    column = pa.array([utc]).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    encoder = RowEncoder([ResultColumn("t", t.TIMESTAMPTZ)], [TEXT], WireContext(zone))
    batch = pa.RecordBatch.from_arrays([column], ["c0"])
    assert split_rows(b"".join(encoder.encode(batch))) == [[shown.encode()]]
