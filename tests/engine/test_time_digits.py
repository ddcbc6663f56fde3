"""TIMESTAMP(p) and its kin: every way into a table rounds, also after a restart."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

import streamsql
from streamsql.core.errors import StreamSqlError
from streamsql.engine.database import Database

TEXT = "2024-01-01 00:00:00.123456"
ROUNDED = datetime.datetime(2024, 1, 1, 0, 0, 0, 123000)


def _copy(db: Database, statement: str, data: bytes) -> None:
    session = db.session()
    copy: Any = session.run(session.parse(statement)[0])
    copy.write(data)
    copy.finish()


def test_copy_programs_and_sources_round(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(f"4,{TEXT}\n")
    with streamsql.connect() as db:
        db.execute("CREATE TABLE t (id INT, ts TIMESTAMP(3), g TIMESTAMP(0) AS ts)")
        _copy(db, "COPY t (id, ts) FROM STDIN", f"1\t{TEXT}\n".encode())
        db.insert("t", {"id": [2], "ts": [datetime.datetime.fromisoformat(TEXT)]})
        db.insert("t", {"id": [3], "ts": [TEXT]})
        whole = datetime.datetime(2024, 1, 1)
        found = db.execute("SELECT id, ts, g FROM t ORDER BY id").fetchall()
        assert found == [(i, ROUNDED, whole) for i in (1, 2, 3)]
        db.execute(
            "CREATE TABLE s (id INT, ts TIMESTAMP(3)) WITH (connector = 'file', path = "
            f"'{tmp_path}/in.csv') FORMAT PLAIN ENCODE CSV (header = false)"
        )
        db.execute("FLUSH")
        assert db.execute("SELECT * FROM s").fetchall() == [(4, ROUNDED)]


def test_digits_outlive_a_restart(tmp_path: Path) -> None:
    with streamsql.connect(tmp_path / "d") as db:
        db.execute("CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMPTZ(3))")
    with streamsql.connect(tmp_path / "d") as db:
        db.execute(f"INSERT INTO t VALUES (1, '{TEXT}+00')")
        (row,) = db.execute("SELECT ts FROM t").fetchall()
        assert row == (ROUNDED.replace(tzinfo=row[0].tzinfo),)
        result = db.execute("SELECT ts, ts + interval '1 s' FROM t")
        assert [c.type.typmod for c in result.columns or ()] == [3, -1]


def test_digits_of_an_intervals_seconds() -> None:
    with streamsql.connect() as db:
        result = db.execute(
            "SELECT (interval '1.2345 s' second(2))::text, ('1.26 s'::interval second(1))::text"
        )
        assert result.fetchall() == [("00:00:01.23", "00:00:01.3")]
        made = "CREATE TABLE t AS SELECT interval '1.2345' second(2) AS i"
        db.execute(made)
        assert db.execute(TYPES).fetchall() == [("i", "interval second(2)")]
        db.execute("CREATE TABLE e (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts)")
        db.execute("INSERT INTO e VALUES (1, '2024-01-01 00:00:03')")
        window = "SELECT window_start FROM TUMBLE(e, ts, INTERVAL '1.6' SECOND(0))"
        assert db.execute(window).fetchall() == [(datetime.datetime(2024, 1, 1, 0, 0, 2),)]


TYPES = (
    "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
    "WHERE attrelid = 't'::regclass AND attnum > 0 ORDER BY attnum"
)
ALTERED = """
    CREATE TABLE t (id INT PRIMARY KEY, a TIMESTAMP, b TIMESTAMPTZ(6), c TIME(3), d INTERVAL,
                    e INTERVAL(1), f TIMESTAMP(3)[], n INT);
    CREATE MATERIALIZED VIEW v AS SELECT n, count(*) AS k FROM t GROUP BY n;
    CREATE INDEX i ON t (a);
    INSERT INTO t VALUES (1, '2024-01-01 00:00:00.5', '2024-01-01 00:00:00.555+00', '10:00:00.555',
                          '-1.55 s', '1.55 s', ARRAY['1999-12-31 23:59:58.5'::timestamp], 7);
    ALTER TABLE t ALTER COLUMN a TYPE TIMESTAMP(0);
    ALTER TABLE t ALTER COLUMN b TYPE TIMESTAMPTZ(1), ALTER COLUMN c SET DATA TYPE TIME(2);
    ALTER TABLE t ALTER COLUMN d TYPE INTERVAL(0);
    ALTER TABLE t ALTER COLUMN e TYPE INTERVAL;
    ALTER TABLE t ALTER COLUMN f TYPE TIMESTAMP(0)[];
    INSERT INTO t VALUES (2, '2024-01-01 00:00:00.5', '2024-01-01 00:00:00.555+00', '10:00:00.555',
                          '-1.55 s', '1.55 s', ARRAY['1999-12-31 23:59:58.5'::timestamp], 7)
"""
SHOWN = "SELECT a::text, b::text, c::text, d::text, e::text, f::text FROM t ORDER BY id"


def _check_altered(db: Database) -> None:
    same = ("2024-01-01 00:00:01", "2024-01-01 00:00:00.6+00", "10:00:00.56", "-00:00:02")
    array = '{"1999-12-31 23:59:58"}'
    assert db.execute(SHOWN).fetchall() == [
        (*same, "00:00:01.6", array), (*same, "00:00:01.55", array),
    ]  # fmt: skip
    assert db.execute(TYPES).fetchall() == [
        ("id", "integer"),
        ("a", "timestamp(0) without time zone"),
        ("b", "timestamp(1) with time zone"),
        ("c", "time(2) without time zone"),
        ("d", "interval(0)"),
        ("e", "interval"),
        ("f", "timestamp(0) without time zone[]"),
        ("n", "integer"),
    ]
    shown = db.execute(
        "SELECT datetime_precision FROM information_schema.columns "
        "WHERE table_name = 't' ORDER BY ordinal_position"
    )
    assert [r[0] for r in shown.fetchall()] == [None, 0, 1, 2, 0, 6, None, None]
    by_index = "SELECT id FROM t WHERE a = '2024-01-01 00:00:01' ORDER BY id"
    assert db.execute(by_index).fetchall() == [(1,), (2,)]


def test_alter_type_changes_the_digits_alone(tmp_path: Path) -> None:
    with streamsql.connect(tmp_path / "d") as db:
        db.execute(ALTERED)
        _check_altered(db)
        assert db.execute("SELECT * FROM v").fetchall() == [(7, 2)]
    with streamsql.connect(tmp_path / "d") as db:
        _check_altered(db)
        text = db.execute("SHOW CREATE TABLE t").fetchall()[0][1]
        db.execute("DELETE FROM t WHERE id = 2")
        assert db.execute("SELECT * FROM v").fetchall() == [(7, 1)]
        db.execute("DROP TABLE t CASCADE")
        db.execute(text)
        types = [t for _, t in db.execute(TYPES).fetchall()]
        assert types[1:4] == [
            "timestamp(0) without time zone", "timestamp(1) with time zone",
            "time(2) without time zone",
        ]  # fmt: skip


def test_alter_type_to_the_same_digits_does_nothing(db: Database) -> None:
    db.execute("CREATE TABLE t (id INT, a TIMESTAMP(3)); INSERT INTO t VALUES (1, now())")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
    db.execute("ALTER TABLE t ALTER COLUMN a TYPE TIMESTAMP(3)")  # would be refused otherwise
    with pytest.raises(StreamSqlError) as caught:
        db.execute("ALTER TABLE t ALTER COLUMN a TYPE TIMESTAMP(2)")
    assert caught.value.sqlstate == "0A000"
    assert caught.value.message == "cannot alter type of a column used by a view or rule"


def test_alter_type_of_digits_below_views_that_only_carry_the_column(db: Database) -> None:
    db.execute("CREATE TABLE l (a TIME, b INT); CREATE TABLE r (a TIME, b INT)")
    db.execute("INSERT INTO l VALUES ('10:00:00.55', 1); INSERT INTO r VALUES ('10:00:00.55', 1)")
    db.execute("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS k FROM l, r")
    db.execute("CREATE MATERIALIZED VIEW nn AS SELECT k FROM n")
    for table in "lr":
        db.execute(f"ALTER TABLE {table} ALTER COLUMN a TYPE TIME(1)")
        db.execute(f"ALTER TABLE {table} ALTER COLUMN b TYPE INT USING b + 1")
        assert db.execute(f"SELECT a::text, b FROM {table}").fetchall() == [("10:00:00.6", 2)]
    for change, count in (
        ("DELETE FROM l", 0), ("INSERT INTO l VALUES ('10:00:00.6', 1), (NULL, 2)", 2),
        ("DELETE FROM r WHERE a = '10:00:00.6'", 0),
    ):  # fmt: skip
        db.execute(change)
        assert db.execute("SELECT k FROM nn").fetchall() == [(count,)]


def test_alter_type_to_fewer_digits_keeps_keys_and_checks(db: Database) -> None:
    db.execute("CREATE TABLE t (a TIME UNIQUE, b TIME PRIMARY KEY, c TIME CHECK (c < '10:00:00'))")
    db.execute(
        "INSERT INTO t VALUES ('01:00:00.1', '01:00:00.2', '09:59:59.4'), "
        "('01:00:00.2', '01:00:00.4', '09:59:59.6')"
    )
    for column, sqlstate in (("a", "23505"), ("b", "23505"), ("c", "23514")):
        with pytest.raises(StreamSqlError) as caught:
            db.execute(f"ALTER TABLE t ALTER COLUMN {column} TYPE TIME(0)")
        assert caught.value.sqlstate == sqlstate
    assert [t for _, t in db.execute(TYPES).fetchall()] == ["time without time zone"] * 3
    found = db.execute("SELECT a::text FROM t ORDER BY 1").fetchall()
    assert found == [("01:00:00.1",), ("01:00:00.2",)]


def test_alter_type_of_digits_in_transactions(db: Database) -> None:
    db.execute("CREATE TABLE t (id INT, a TIME); INSERT INTO t VALUES (1, '10:00:00.55')")
    writer = db.session()
    for sql in ("BEGIN", "INSERT INTO t VALUES (2, '10:00:00.55')"):
        writer.run(writer.parse(sql)[0])
    db.execute("BEGIN")
    db.execute("ALTER TABLE t ALTER COLUMN a TYPE TIME(1)")
    db.execute("INSERT INTO t VALUES (3, '10:00:00.66')")
    wanted = [(1, "10:00:00.6"), (3, "10:00:00.7")]
    assert db.execute("SELECT id, a::text FROM t ORDER BY id").fetchall() == wanted
    db.execute("COMMIT")
    with pytest.raises(StreamSqlError) as caught:  # its row has more digits than the column
        writer.run(writer.parse("COMMIT")[0])
    assert caught.value.sqlstate == "40001"
    assert db.execute("SELECT id, a::text FROM t ORDER BY id").fetchall() == wanted


def test_alter_type_of_a_computed_numeric_gives_it_digits(db: Database) -> None:
    db.execute("CREATE TABLE t AS SELECT sum(1::bigint) AS s, interval '1.26' second(1) AS i")
    db.execute("ALTER TABLE t ALTER COLUMN s TYPE NUMERIC(38, 0)")
    db.execute("ALTER TABLE t ALTER COLUMN i TYPE INTERVAL")
    assert db.execute(TYPES).fetchall() == [("s", "numeric(38,0)"), ("i", "interval")]
    text = db.execute("SHOW CREATE TABLE t").fetchall()[0][1]
    db.execute("DROP TABLE t")
    db.execute(text)
    assert db.execute(TYPES).fetchall() == [("s", "numeric(38,0)"), ("i", "interval")]
