"""CHECK and UNIQUE: names, errors, every way that rows come in, and after a restart."""

from __future__ import annotations

import json

import pytest

import streamsql
from streamsql.core.errors import StreamSqlError

TABLE = """CREATE TABLE t (
    a INT CHECK (a > 0), b INT UNIQUE, c TEXT,
    CONSTRAINT small CHECK (c <> 'x' AND b < 100), UNIQUE (a, c))"""


def test_check_refuses_a_false_row_and_lets_null_pass(db, rows, fails):
    db.execute(TABLE)
    error = fails("INSERT INTO t VALUES (5, 5, 'e'), (-1, 1, 'a')", "23514")
    assert error.message == 'new row for relation "t" violates check constraint "t_a_check"'
    assert error.detail == "Failing row contains (-1, 1, a)."
    db.execute("INSERT INTO t VALUES (NULL, NULL, NULL)")
    assert rows("SELECT * FROM t") == [(None, None, None)]


def test_check_names_follow_postgresql(db, fails):
    db.execute("CREATE TABLE n (a INT CHECK (a > 0) CHECK (a < 9), b INT, CHECK (a < b))")
    for row, name in (("(0, 5)", "n_a_check"), ("(9, 10)", "n_a_check1"), ("(5, 5)", "n_check")):
        assert f'"{name}"' in fails(f"INSERT INTO n VALUES {row}", "23514").message


def test_update_upsert_and_data_frames_are_checked_too(db, rows, fails):
    db.execute(TABLE)
    db.execute("INSERT INTO t VALUES (1, 1, 'a')")
    fails("UPDATE t SET b = 100", "23514")
    fails("INSERT INTO t VALUES (2, 1, 'b') ON CONFLICT (b) DO UPDATE SET c = 'x'", "23514")
    with pytest.raises(StreamSqlError) as caught:
        db.insert("t", {"a": [-5], "b": [7], "c": ["q"]})
    assert caught.value.sqlstate == "23514"
    assert rows("SELECT * FROM t") == [(1, 1, "a")]


def test_unique_columns_and_sets_of_columns(db, rows, fails):
    db.execute(TABLE)
    db.execute("INSERT INTO t VALUES (1, 1, 'a'), (NULL, NULL, 'a'), (NULL, NULL, 'a')")
    assert '"t_b_key"' in fails("INSERT INTO t VALUES (2, 1, 'a')", "23505").message
    assert '"t_a_c_key"' in fails("INSERT INTO t VALUES (1, 2, 'a')", "23505").message
    db.execute("UPDATE t SET b = b + 1")
    db.execute("INSERT INTO t VALUES (9, 2, 'z') ON CONFLICT ON CONSTRAINT t_b_key DO NOTHING")
    db.execute("INSERT INTO t VALUES (9, 2, 'z') ON CONFLICT (b) DO UPDATE SET c = excluded.c")
    assert rows("SELECT * FROM t WHERE b IS NOT NULL") == [(1, 2, "z")]
    fails("INSERT INTO t VALUES (1, 1, 'q') ON CONFLICT ON CONSTRAINT nope DO NOTHING", "42704")


def test_wrong_constraints_are_refused(db, fails):
    fails("CREATE TABLE u (a INT CHECK (a > (SELECT 1)))", "0A000")
    fails("CREATE TABLE u (a INT CHECK (a))", "42804")
    fails("CREATE TABLE u (a INT CHECK (sum(a) > 1))", "42803")
    fails("CREATE TABLE u (a INT CHECK (now() IS NULL))", "0A000")
    fails("CREATE TABLE u (a INT, UNIQUE (b))", "42703")
    fails("CREATE TABLE u (a INT, UNIQUE (a, a))", "42701")
    fails("CREATE TABLE u (CONSTRAINT n CHECK (1 > 0), CONSTRAINT n CHECK (1 > 0), a INT)", "42710")
    fails("CREATE TABLE u (a INT UNIQUE NULLS NOT DISTINCT)", "0A000")
    fails("CREATE TABLE u (a INT UNIQUE) WITH (connector = 'datagen')", "0A000")


def test_constraints_hold_after_a_restart(tmp_path):
    with streamsql.connect(tmp_path) as first:
        first.execute(TABLE)
        first.execute("INSERT INTO t VALUES (1, 1, 'a')")
    with streamsql.connect(tmp_path) as second:
        for sql, state in (
            ("INSERT INTO t VALUES (0, 2, 'b')", "23514"),
            ("INSERT INTO t VALUES (2, 1, 'b')", "23505"),
        ):
            with pytest.raises(StreamSqlError) as caught:
                second.execute(sql)
            assert caught.value.sqlstate == state


def test_rows_of_a_file_that_break_a_check_are_source_errors(db, rows, tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps({"a": a}) + "\n" for a in (1, -1, 2)))
    db.execute(
        f"CREATE TABLE f (a INT CHECK (a > 0)) WITH (connector = 'file', path = '{path}')"
        " FORMAT PLAIN ENCODE JSON"
    )
    db.execute("FLUSH")
    assert rows("SELECT a FROM f") == [(1,), (2,)]
    found = rows("SELECT payload, reason FROM streamsql.source_errors")
    assert found == [("-1", 'row violates check constraint "f_a_check"')]
