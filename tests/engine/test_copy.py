"""COPY FROM STDIN and TO STDOUT in three formats."""

from __future__ import annotations

import datetime
import struct
from decimal import Decimal

import pytest

from streamsql.core.errors import StreamSqlError

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, v TEXT, n NUMERIC(10, 2), a INT[], ts TIMESTAMP)"


@pytest.fixture
def copy(db):
    """Run COPY FROM with the data in pieces; returns its tag."""
    db.execute(TABLE)
    session = db.session()

    def run(sql: str, data: bytes, piece: int = 7) -> str:
        copying = session.run(session.parse(sql)[0])
        for at in range(0, len(data), piece):
            copying.write(data[at : at + piece])
        return copying.finish().tag

    return run


def test_text_with_escapes_and_nulls(copy, rows):
    data = (
        b"1\ta\\tb\\\\n\\n\\101\t1.5\t{1,NULL}\t2024-01-01 10:00:00\n2\t\\N\t\\N\t\\N\t\\N\n\\.\n"
    )
    assert copy("COPY t FROM STDIN", data) == "COPY 2"
    assert rows("SELECT * FROM t") == [
        (1, "a\tb\\n\nA", Decimal("1.50"), [1, None], datetime.datetime(2024, 1, 1, 10)),
        (2, None, None, None, None),
    ]


def test_text_escaped_delimiter_and_newline_do_not_split(copy, rows):
    copy("COPY t (id, v) FROM STDIN", b"1\tx\\\ty\n2\ta\\\nb\n")
    assert rows("SELECT id, v FROM t") == [(1, "x\ty"), (2, "a\nb")]


def test_csv_tells_empty_from_null(copy, rows):
    data = b'id,v\n1,"a,""b"""\n2,\n3,""\n4,"two\nlines"\n'
    assert copy("COPY t (id, v) FROM STDIN (FORMAT csv, HEADER)", data) == "COPY 4"
    assert rows("SELECT id, v FROM t") == [(1, 'a,"b"'), (2, None), (3, ""), (4, "two\nlines")]


def test_csv_options(copy, rows):
    copy("COPY t (v, id) FROM STDIN (FORMAT csv, DELIMITER ';', NULL '-', QUOTE '''')",
         b"'a;b';1\n-;2\n")  # fmt: skip
    assert rows("SELECT id, v FROM t") == [(1, "a;b"), (2, None)]


def field(data: bytes | None) -> bytes:
    return struct.pack("!i", -1) if data is None else struct.pack("!i", len(data)) + data


def test_binary(copy, rows):
    numeric = struct.pack("!hhHh", 2, 0, 0x4000, 2) + struct.pack("!hh", 12, 3400)
    array = struct.pack("!iiiii", 1, 1, 23, 2, 1) + field(struct.pack("!i", 7)) + field(None)
    first = [struct.pack("!i", 1), b"x", numeric, array, struct.pack("!q", 86_400_000_000)]
    second = [struct.pack("!i", 2), None, None, None, None]
    data = b"PGCOPY\n\xff\r\n\0" + bytes(8)
    for values in (first, second):
        data += struct.pack("!h", 5) + b"".join(field(v) for v in values)
    data += b"\xff\xff"
    assert copy("COPY t FROM STDIN (FORMAT binary)", data) == "COPY 2"
    assert rows("SELECT * FROM t") == [
        (1, "x", Decimal("-12.34"), [7, None], datetime.datetime(2000, 1, 2)),
        (2, None, None, None, None),
    ]


@pytest.mark.parametrize(
    ("options", "data", "sqlstate", "detail"),
    [
        ("", b"1\ta\n2\n", "22P04", 'COPY t, line 2: "2"'),
        ("", b"1\ta\tx\n", "22P04", 'COPY t, line 1: "1\ta\tx"'),
        ("", b"1\ta\n\n", "22P04", 'COPY t, line 2: ""'),
        ("", b"1\ta\nzz\tb\n", "22P02", 'COPY t, line 2, column id: "zz"'),
        ("", b"1\t\xff\xfe\n", "22021", "COPY t, line 1"),
        ("", b"1\ta\n1\tb\n", "23505", "Key (id)=(1) already exists."),
        ("", b"\\N\ta\n", "23502", "Failing row contains (null, a, null, null, null)."),
        (" (FORMAT binary)", b"nonsense", "22P04", None),
    ],
)
def test_bad_data_is_refused_with_its_place(copy, rows, options, data, sqlstate, detail):
    with pytest.raises(StreamSqlError) as caught:
        copy(f"COPY t (id, v) FROM STDIN{options}", data)
    assert (caught.value.sqlstate, caught.value.detail) == (sqlstate, detail)
    assert rows("SELECT * FROM t") == []


def test_client_that_gives_up_changes_nothing(db, copy, rows):
    session = db.session()
    copying = session.run(session.parse("COPY t FROM STDIN")[0])
    copying.write(b"1\ta\t\\N\t\\N\t\\N\n")
    copying.fail("enough")
    assert rows("SELECT * FROM t") == []


def test_copy_inside_a_transaction(db, copy, rows):
    session = db.session()
    session.execute("BEGIN")
    copying = session.run(session.parse("COPY t (id) FROM STDIN")[0])
    copying.write(b"1\n2\n")
    copying.finish()
    assert rows("SELECT count(*) FROM t") == [(0,)]
    session.execute("COMMIT")
    assert rows("SELECT count(*) FROM t") == [(2,)]


def test_generated_columns_are_not_in_the_data(db, rows):
    db.execute("CREATE TABLE g (a INT, b INT GENERATED ALWAYS AS (a + 1) STORED)")
    session = db.session()
    copying = session.run(session.parse("COPY g FROM STDIN")[0])
    assert copying.column_count == 1
    copying.write(b"1\n")
    copying.finish()
    assert rows("SELECT * FROM g") == [(1, 2)]


def test_copy_out_of_table_and_query(db, copy):
    copy("COPY t (id, v) FROM STDIN", b"1\ta\n2\tb\n")
    session = db.session()
    out, result = session.run(session.parse("COPY t (v, id) TO STDOUT (FORMAT csv, HEADER)")[0])
    assert (out.format, out.header, out.delimiter) == ("csv", True, ",")
    assert sorted(result.fetchall()) == [("a", 1), ("b", 2)]
    out, result = session.run(session.parse("COPY (SELECT id + 1 FROM t) TO STDOUT")[0])
    assert (out.delimiter, out.null) == ("\t", "\\N")
    assert sorted(result.fetchall()) == [(2,), (3,)]
