"""INCLUDE: where a row of a source comes from, as columns."""

from __future__ import annotations

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamsql

LINES = '{"a": 1}\n{"a": "x"}\n{"a": 3, "b": "é"}\r\n{"a": 4}'
ROWS = [
    (1, None, 2, 0, '{"a": 1}'),
    (3, "é", 4, 20, '{"a": 3, "b": "é"}'),
    (4, None, 5, 41, '{"a": 4}'),
]


def create(path, kind: str = "TABLE", extra: str = "") -> str:
    return (
        f"CREATE {kind} f (a INT, b TEXT, c INT AS a + 1{extra}) INCLUDE partition AS p INCLUDE offset AS o"
        f" INCLUDE payload AS raw WITH (connector = 'file', path = '{path}') FORMAT PLAIN ENCODE JSON"
    )


def test_lines_of_a_file_know_their_file_place_and_text(db, rows, tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_bytes(LINES.encode())
    db.execute(create(path))
    db.execute("FLUSH")
    assert rows("SELECT a, b, c, o, raw FROM f") == ROWS
    assert rows("SELECT DISTINCT p FROM f") == [(str(path),)]
    found = rows(
        "SELECT data_type FROM information_schema.columns WHERE table_name = 'f' AND column_name IN ('p', 'o')"
    )
    assert found == [("bigint",), ("text",)]


def test_offsets_are_of_the_text_in_a_compressed_file(db, rows, tmp_path):
    path = tmp_path / "in.jsonl.gz"
    path.write_bytes(gzip.compress(LINES.encode()))
    db.execute(create(path))
    db.execute("FLUSH")
    assert rows("SELECT a, b, c, o, raw FROM f") == ROWS


def test_csv_records_may_hold_line_feeds(db, rows, tmp_path):
    path = tmp_path / "in.csv"
    path.write_text('a,b\n1,"x\ny"\n2,z\n')
    db.execute(
        f"CREATE TABLE f (a INT, b TEXT) INCLUDE payload AS raw INCLUDE offset WITH (connector = 'file', path = '{path}')"
        " FORMAT PLAIN ENCODE CSV (header = true)"
    )
    db.execute("FLUSH")
    assert rows("SELECT a, raw, _offset FROM f") == [(1, '1,"x\ny"', 4), (2, "2,z", 12)]


def test_rows_of_parquet_and_of_generators_are_numbered(db, rows, fails, tmp_path):
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"a": list(range(5))}), path)
    db.execute(
        f"CREATE TABLE f (a BIGINT) INCLUDE offset AS o WITH (connector = 'file', path = '{path}')"
    )
    db.execute("FLUSH")
    assert rows("SELECT a - o FROM f") == [(0,)] * 5
    fails(
        f"CREATE TABLE g (a BIGINT) INCLUDE payload WITH (connector = 'file', path = '{path}')",
        "0A000",
    )
    db.execute(
        "CREATE TABLE g (a INT) INCLUDE offset AS o INCLUDE partition AS p WITH (connector = 'datagen', number_of_rows = 3, rows_per_second = 1000000)"
    )
    db.execute("FLUSH")
    assert rows("SELECT o, p FROM g") == [(0, "0"), (1, "0"), (2, "0")]


def test_a_view_over_a_source_made_later_sees_the_same_places(db, rows, tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_bytes(LINES.encode())
    db.execute(create(path, "SOURCE"))
    for name in ("early", "late"):
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS SELECT a, b, c, o, raw FROM f")
        db.execute("FLUSH")
        assert rows(f"TABLE {name}") == ROWS


def test_places_are_kept_over_a_restart(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_bytes(LINES.encode())
    for create_it in (True, False):
        with streamsql.connect(tmp_path / "data") as db:
            if create_it:
                db.execute(create(path))
            db.execute("FLUSH")
            assert sorted(db.execute("SELECT a, b, c, o, raw FROM f").fetchall()) == ROWS


@pytest.mark.parametrize(("sql", "sqlstate"), [
    ("CREATE TABLE x (a INT) INCLUDE offset", "42P16"),
    ("CREATE TABLE x (a INT) INCLUDE key WITH (connector = 'datagen')", "0A000"),
    ("CREATE TABLE x (a INT) INCLUDE payload WITH (connector = 'datagen')", "0A000"),
    ("CREATE TABLE x (a INT) INCLUDE offset AS a WITH (connector = 'datagen')", "42701"),
    ("CREATE TABLE x (a INT) INCLUDE colour WITH (connector = 'datagen')", "42601"),
])  # fmt: skip
def test_wrong_include_is_refused(fails, sql: str, sqlstate: str) -> None:
    fails(sql, sqlstate)


def test_metadata_columns_of_flink(db):
    session = db.session()
    session.execute("SET dialect = 'flink'")
    session.execute(
        "CREATE TABLE G (a INT, o BIGINT METADATA FROM 'offset') WITH ('connector' = 'datagen', 'number-of-rows' = '2', 'rows-per-second' = '1000000')"
    )
    session.execute("CREATE MATERIALIZED VIEW V AS SELECT o FROM G")
    session.execute("FLUSH")
    assert sorted(session.execute("SELECT o FROM V").fetchall()) == [(0,), (1,)]
    session.close()
