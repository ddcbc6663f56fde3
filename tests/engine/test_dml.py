"""INSERT, UPDATE, DELETE, TRUNCATE in all their forms."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from streamsql.core.errors import NumericValueOutOfRange

TABLE = """CREATE TABLE t (
    id INT PRIMARY KEY, k TEXT, n NUMERIC(10, 2) DEFAULT 7,
    twice INT GENERATED ALWAYS AS (id * 2) STORED, ok BOOLEAN NOT NULL DEFAULT true)"""


@pytest.fixture(autouse=True)
def table(db):
    db.execute(TABLE)


def test_insert_fills_defaults_and_generated_columns(db, rows):
    assert db.execute("INSERT INTO t (id, k) VALUES (1, 'a'), (2, NULL)").tag == "INSERT 0 2"
    assert rows("SELECT * FROM t") == [
        (1, "a", Decimal("7.00"), 2, True),
        (2, None, Decimal("7.00"), 4, True),
    ]


def test_insert_default_words_and_default_values(db, rows):
    db.execute("INSERT INTO t VALUES (1, DEFAULT, DEFAULT, DEFAULT, DEFAULT)")
    assert rows("SELECT * FROM t") == [(1, None, Decimal("7.00"), 2, True)]
    db.execute("CREATE TABLE d (a INT DEFAULT 5, b TEXT)")
    db.execute("INSERT INTO d DEFAULT VALUES")
    assert rows("SELECT * FROM d") == [(5, None)]


def test_insert_many_literal_rows_takes_the_same_values_as_few(db, rows):
    values = [(i, f"k{i}", f"{i}.126") for i in range(10)]
    text = ", ".join(f"({i}, '{k}', {n})" for i, k, n in values)
    db.execute(f"INSERT INTO t (id, k, n) VALUES {text}")
    expected = [(i, f"k{i}", Decimal(f"{i}.13")) for i in range(10)]
    assert rows("SELECT id, k, n FROM t") == expected


def test_insert_number_literal_into_integer_column_rounds(db, rows):
    text = ", ".join(f"({i}.7)" for i in range(6))
    db.execute(f"INSERT INTO t (id) VALUES {text}")
    assert rows("SELECT id FROM t") == [(i + 1,) for i in range(6)]


def test_insert_select_casts_as_in_an_assignment(db, rows):
    db.execute("CREATE TABLE s (d DATE, x SMALLINT)")
    db.execute("INSERT INTO s SELECT '2024-02-29', 3")
    assert rows("SELECT * FROM s") == [(datetime.date(2024, 2, 29), 3)]


def test_insert_returning_gives_new_rows_in_order(db):
    result = db.execute("INSERT INTO t (id) VALUES (3), (1) RETURNING *, id + 1 AS next")
    assert [c.name for c in result.columns] == ["id", "k", "n", "twice", "ok", "next"]
    assert [r[-1] for r in result.fetchall()] == [4, 2]
    assert result.columns[0].attnum == 1


@pytest.mark.parametrize(
    ("sql", "sqlstate"),
    [
        ("INSERT INTO t (id, ok) VALUES (1, NULL)", "23502"),
        ("INSERT INTO t (id, nope) VALUES (1, 2)", "42703"),
        ("INSERT INTO t (id, id) VALUES (1, 2)", "42701"),
        ("INSERT INTO t (id, k) VALUES (1)", "42601"),
        ("INSERT INTO t (id) VALUES (1, 2)", "42601"),
        ("INSERT INTO t (id) VALUES ('x')", "22P02"),
        ("INSERT INTO t (id, n) VALUES (1, 123456789)", "22003"),
        ("INSERT INTO t (id, ok) VALUES (1, 5)", "42804"),
        ("INSERT INTO t (id, twice) VALUES (1, 5)", "428C9"),
        ("INSERT INTO nope VALUES (1)", "42P01"),
        ("INSERT INTO t (id) VALUES (1), (1)", "23505"),
        ("INSERT INTO t (id) VALUES (1) ON CONFLICT (k) DO NOTHING", "42P10"),
        ("INSERT INTO t (id) VALUES (1), (1) ON CONFLICT (id) DO UPDATE SET k = 'x'", "21000"),
        ("UPDATE t SET nope = 1", "42703"),
        ("UPDATE t SET k = 'a', k = 'b'", "42601"),
        ("UPDATE t SET twice = 3", "428C9"),
        ("DELETE FROM t WHERE nope", "42703"),
    ],
)
def test_wrong_statements_have_sqlstates_and_change_nothing(db, fails, rows, sql, sqlstate):
    fails(sql, sqlstate)
    assert rows("SELECT * FROM t") == []
    assert db.version == 1


def test_not_null_names_column_and_row(fails):
    error = fails("INSERT INTO t (id, ok) VALUES (8, NULL)", "23502")
    assert error.message == (
        'null value in column "ok" of relation "t" violates not-null constraint'
    )
    assert error.detail == "Failing row contains (8, null, 7.00, 16, null)."


def test_duplicate_key_names_constraint_and_key(db, fails):
    db.execute("INSERT INTO t (id) VALUES (1)")
    error = fails("INSERT INTO t (id) VALUES (2), (1)", "23505")
    assert error.message == 'duplicate key value violates unique constraint "t_pkey"'
    assert error.detail == "Key (id)=(1) already exists."


def test_on_conflict_do_nothing_keeps_the_first(db, rows):
    db.execute("INSERT INTO t (id, k) VALUES (1, 'old')")
    result = db.execute(
        "INSERT INTO t (id, k) VALUES (1, 'x'), (2, 'first'), (2, 'second') "
        "ON CONFLICT DO NOTHING RETURNING id, k"
    )
    assert result.tag == "INSERT 0 1"
    assert result.fetchall() == [(2, "first")]
    assert rows("SELECT id, k FROM t") == [(1, "old"), (2, "first")]


def test_on_conflict_do_update_sees_both_rows(db, rows):
    db.execute("INSERT INTO t (id, n) VALUES (1, 10), (2, 20)")
    db.execute(
        "INSERT INTO t AS mine (id, n) VALUES (1, 1), (2, 2), (3, 3) ON CONFLICT (id) "
        "DO UPDATE SET n = mine.n + excluded.n, k = DEFAULT WHERE mine.n > 10"
    )
    assert rows("SELECT id, n FROM t") == [
        (1, Decimal("10.00")),
        (2, Decimal("22.00")),
        (3, Decimal("3.00")),
    ]


def test_table_on_conflict_overwrite_keeps_the_last(db, rows):
    db.execute("CREATE TABLE o (id INT PRIMARY KEY, v INT, w INT) ON CONFLICT OVERWRITE")
    db.execute("INSERT INTO o VALUES (1, 1, 1), (2, 2, 2), (1, 3, NULL)")
    db.execute("INSERT INTO o VALUES (2, 9, 9)")
    assert rows("SELECT * FROM o") == [(1, 3, None), (2, 9, 9)]


def test_table_update_if_not_null_merges(db, rows):
    db.execute(
        "CREATE TABLE m (id INT PRIMARY KEY, v INT, w INT) ON CONFLICT DO UPDATE IF NOT NULL"
    )
    db.execute("INSERT INTO m VALUES (1, 1, NULL), (1, NULL, 2)")
    assert rows("SELECT * FROM m") == [(1, 1, 2)]
    db.execute("INSERT INTO m VALUES (1, NULL, 5), (2, 7, NULL)")
    assert rows("SELECT * FROM m") == [(1, 1, 5), (2, 7, None)]


def test_update_checks_uniqueness_at_the_end(db, fails, rows):
    db.execute("INSERT INTO t (id) VALUES (1), (2), (3)")
    assert db.execute("UPDATE t SET id = id + 1").tag == "UPDATE 3"
    assert rows("SELECT id, twice FROM t") == [(2, 4), (3, 6), (4, 8)]
    fails("UPDATE t SET id = 3 WHERE id = 2", "23505")
    assert rows("SELECT id FROM t") == [(2,), (3,), (4,)]


def test_update_from_changes_each_row_once(db, rows):
    db.execute("INSERT INTO t (id, k) VALUES (1, 'a'), (2, 'b')")
    db.execute("CREATE TABLE o (id INT, k TEXT)")
    db.execute("INSERT INTO o VALUES (1, 'x'), (1, 'x'), (3, 'z')")
    result = db.execute(
        "UPDATE t SET k = t.k || o.k FROM o WHERE o.id = t.id RETURNING t.id, t.k, o.k AS other"
    )
    assert result.tag == "UPDATE 1"
    assert result.fetchall() == [(1, "ax", "x")]
    assert rows("SELECT id, k FROM t") == [(1, "ax"), (2, "b")]


def test_delete_using_and_subquery(db, rows):
    db.execute("INSERT INTO t (id) VALUES (1), (2), (3), (4)")
    assert (
        db.execute("DELETE FROM t USING (VALUES (2), (9)) v(x) WHERE t.id = v.x").tag == "DELETE 1"
    )
    assert db.execute(
        "DELETE FROM t WHERE id = (SELECT max(id) FROM t) RETURNING id"
    ).fetchall() == [(4,)]
    assert rows("SELECT id FROM t") == [(1,), (3,)]


def test_table_without_key_keeps_duplicates_apart(db, rows):
    db.execute("CREATE TABLE b (v INT)")
    db.execute("INSERT INTO b VALUES (1), (1), (2)")
    db.execute("UPDATE b SET v = 5 WHERE v = 1")
    assert rows("SELECT * FROM b") == [(2,), (5,), (5,)]
    assert db.execute("DELETE FROM b WHERE v = 5").tag == "DELETE 2"


def test_truncate_empties_several_tables_in_one_tick(db, rows):
    db.execute("CREATE TABLE o (a INT)")
    db.execute("INSERT INTO t (id) VALUES (1)")
    db.execute("INSERT INTO o VALUES (1)")
    before = db.version
    db.execute("TRUNCATE t, o")
    assert db.version == before + 1
    assert rows("SELECT id FROM t UNION ALL SELECT a FROM o") == []


def test_append_only_table_takes_no_changes(db, fails):
    db.execute("CREATE TABLE a (v INT) APPEND ONLY")
    db.execute("INSERT INTO a VALUES (1)")
    fails("UPDATE a SET v = 2", "0A000")
    fails("DELETE FROM a", "0A000")


def test_writes_to_views_are_refused(db, fails):
    db.execute("CREATE VIEW v AS SELECT * FROM t")
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT * FROM t")
    fails("INSERT INTO v (id) VALUES (1)", "55000")
    fails("DELETE FROM m", "42809")
    fails("INSERT INTO streamsql.jobs VALUES (1)", "42809")


def test_parameters_take_their_types_from_the_columns(db, rows):
    db.execute("INSERT INTO t (id, n, ok) VALUES ($1, $2, $3)", [1, "2.345", "f"])
    db.execute("UPDATE t SET n = n + $1 WHERE id = $2", [1, "1"])
    assert rows("SELECT id, n, ok FROM t") == [(1, Decimal("3.35"), False)]


def test_insert_dataframes_and_dicts(db, rows):
    pandas = pytest.importorskip("pandas")
    assert db.insert("t", pa.table({"id": pa.array([1], pa.int64()), "k": ["a"]})) == 1
    assert db.insert("public.t", pandas.DataFrame({"id": [2], "n": [1.5]})) == 1
    assert db.insert("t", [{"id": 3}, {"id": 4, "k": "d"}]) == 2
    assert rows("SELECT id, k FROM t") == [(1, "a"), (2, None), (3, None), (4, "d")]


def test_insert_numbers_into_numeric_rounds_as_sql_does(db, rows):
    db.execute("CREATE TABLE n (v NUMERIC(6,3))")
    for values in ([3, None], [3.5], [Decimal("3.5555")]):
        db.insert("n", [{"v": v} for v in values])
    assert rows("SELECT v FROM n ORDER BY v") == [
        (Decimal("3.000"),), (Decimal("3.500"),), (Decimal("3.556"),), (None,),
    ]  # fmt: skip
    with pytest.raises(NumericValueOutOfRange):
        db.insert("n", [{"v": 1000}])


def test_question_marks_may_touch_operators(db):
    db.execute("CREATE TABLE q (a INT, j JSONB)")
    db.execute("INSERT INTO q VALUES (1, '{\"k\": 1}'), (2, '{}')")
    assert db.execute("SELECT a FROM q WHERE a=?", [2]).fetchall() == [(2,)]
    assert db.execute("SELECT ?+a FROM q WHERE a>=? AND a<?", [5, 1, 2]).fetchall() == [(6,)]
    assert db.execute("SELECT a FROM q WHERE j ?| ARRAY['k'] AND a>?", [0]).fetchall() == [(1,)]


def test_insert_dataframe_with_unknown_column(db):
    from streamsql.core.errors import DatatypeMismatch, UndefinedColumn

    with pytest.raises(UndefinedColumn):
        db.insert("t", [{"id": 3, "nope": 1}])
    with pytest.raises(DatatypeMismatch):
        db.insert("t", pa.table({"id": pa.array([b"x"])}))


def test_update_of_several_columns_from_one_subquery(db, rows, fails):
    db.execute("INSERT INTO t (id, k, n) VALUES (1, 'a', 1), (2, 'b', 2)")
    db.execute("CREATE TABLE s (id INT, k TEXT, n INT)")
    db.execute("INSERT INTO s VALUES (1, 'x', 10)")
    db.execute("UPDATE t SET (k, n) = (SELECT s.k, s.n + t.n FROM s WHERE s.id = t.id)")
    assert rows("SELECT id, k, n FROM t") == [(1, "x", Decimal("11.00")), (2, None, None)]
    db.execute(
        "UPDATE t SET (k, n) = (SELECT 'y', 5 UNION ALL SELECT 'z', 6 ORDER BY 1 LIMIT 1), ok = false"
    )
    assert rows("SELECT k, n, ok FROM t") == [("y", Decimal("5.00"), False)] * 2
    fails("UPDATE t SET (k, n) = (SELECT 'y' FROM s)", "42601")
    fails("UPDATE t SET (k, n) = (SELECT 'y', 1 FROM t)", "21000")
    fails("UPDATE t SET (k, n) = (SELECT 'y', now())", "42804")
    fails("UPDATE t SET (k, n) = 5", "42601")
