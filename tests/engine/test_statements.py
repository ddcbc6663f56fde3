"""Catalog statements, settings, prepared statements, EXPLAIN, the clock, and what is refused."""

from __future__ import annotations

from datetime import date, datetime

import pytest

import streamsql
from streamsql.core.errors import StreamSqlError
from streamsql.core.types import BIGINT, INTEGER, TEXT


# --- dependencies -------------------------------------------------------------------------------
def test_drop_names_dependents_and_hints_at_cascade(db, fails):
    db.execute("CREATE TABLE t (v INT)")
    db.execute("CREATE MATERIALIZED VIEW m1 AS SELECT v FROM t")
    db.execute("CREATE VIEW v2 AS SELECT v FROM m1")
    error = fails("DROP TABLE t", "2BP01")
    assert error.message == "cannot drop table t because other objects depend on it"
    assert error.detail == (
        "materialized view m1 depends on table t\nview v2 depends on materialized view m1"
    )
    assert error.hint == "Use DROP ... CASCADE to drop the dependent objects too."
    assert (
        db.execute("DROP TABLE t CASCADE").notices[0].message == "drop cascades to 2 other objects"
    )
    assert db.execute("SHOW VIEWS").fetchall() == []
    assert not db.engine.circuit.nodes


def test_drop_several_that_depend_on_each_other(db):
    db.execute("CREATE TABLE t (v INT); CREATE TABLE u (v INT)")
    db.execute("DROP TABLE t, u")
    assert db.execute("SHOW TABLES").fetchall() == []


def test_drop_of_the_wrong_kind_and_if_exists(db, fails):
    db.execute("CREATE TABLE t (v INT)")
    error = fails("DROP VIEW t", "42809")
    assert error.hint == "Use DROP TABLE to remove a table."
    fails("DROP TABLE nope", "42P01")
    notice = db.execute("DROP TABLE IF EXISTS nope").notices[0]
    assert notice.message == 'table "nope" does not exist, skipping'


def test_plain_views_mean_what_they_meant_when_made(db, rows):
    db.execute(
        "CREATE SCHEMA a; CREATE SCHEMA b; CREATE TABLE a.t (v INT); CREATE TABLE b.t (v INT)"
    )
    db.execute("INSERT INTO a.t VALUES (1); INSERT INTO b.t VALUES (2)")
    db.execute("SET search_path = a")
    db.execute("CREATE VIEW public.v AS SELECT t.v FROM t")
    db.execute("CREATE MATERIALIZED VIEW public.m AS WITH t2 AS (SELECT * FROM t) SELECT * FROM t2")
    db.execute("SET search_path = b, public")
    assert rows("SELECT * FROM v") == [(1,)]
    assert rows("SELECT * FROM m") == [(1,)]
    assert rows("SELECT * FROM t") == [(2,)]


def test_schemas(db, fails):
    db.execute("CREATE SCHEMA s")
    fails("CREATE SCHEMA s", "42P06")
    assert db.execute("CREATE SCHEMA IF NOT EXISTS s").notices
    db.execute("CREATE TABLE s.t (v INT)")
    fails("DROP SCHEMA s", "2BP01")
    fails("CREATE TABLE nope.t (v INT)", "3F000")
    fails("CREATE TABLE pg_catalog.t (v INT)", "42501")
    fails("CREATE SCHEMA pg_mine", "42939")
    db.execute("DROP SCHEMA s CASCADE")
    fails("SELECT * FROM s.t", "42P01")


def test_create_or_replace_view(db, rows, fails):
    db.execute("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 2)")
    db.execute("CREATE VIEW v AS SELECT a FROM t")
    db.execute("CREATE VIEW w AS SELECT a FROM v")
    db.execute("CREATE OR REPLACE VIEW v AS SELECT b AS a, a AS more FROM t")
    assert rows("SELECT * FROM w") == [(2,)]
    fails("CREATE OR REPLACE VIEW v AS SELECT a AS other FROM t", "42P16")
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT a FROM t")
    db.execute("CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT a + b AS s FROM t")
    db.execute("INSERT INTO t VALUES (10, 20)")
    assert rows("SELECT * FROM m") == [(3,), (30,)]
    fails("CREATE OR REPLACE VIEW m AS SELECT 1 AS x", "42809")


def test_show_create_is_the_users_own_text(db):
    text = 'CREATE  MATERIALIZED VIEW m AS\n  SELECT 1 AS "One" -- why not'
    db.execute(text)
    assert db.execute("SHOW CREATE MATERIALIZED VIEW m").fetchall()[0][1].startswith(text[:50])


def test_describe_and_comments(db, fails):
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(5) NOT NULL)")
    db.execute("COMMENT ON COLUMN t.v IS 'words'")
    assert db.execute("DESCRIBE t").fetchall() == [
        ("id", "integer", False, "PRIMARY KEY", None),
        ("v", "character varying(5)", False, None, "words"),
    ]
    fails("COMMENT ON COLUMN t.nope IS 'x'", "42703")


def test_create_table_as(db, rows, fails):
    db.execute("CREATE TABLE a AS SELECT 1 AS x, 'y' AS y")
    assert db.execute("CREATE TABLE b (p, q) AS SELECT * FROM a").tag == "SELECT 1"
    assert rows("SELECT p, q FROM b") == [(1, "y")]
    fails("CREATE TABLE c AS SELECT 1 AS x, 2 AS x", "42701")


def test_failing_create_leaves_nothing(db, fails):
    db.execute("CREATE TABLE t (v INT)")
    nodes = set(db.engine.circuit.nodes)
    fails("CREATE MATERIALIZED VIEW m AS SELECT nope FROM t", "42703")
    fails("CREATE MATERIALIZED VIEW m AS SELECT random() AS r FROM t", "0A000")
    fails("CREATE MATERIALIZED VIEW m WITH (nope = '1') AS SELECT v FROM t", "0A000")
    fails("CREATE MATERIALIZED VIEW m WITH (on_error = 'x') AS SELECT v FROM t", "22023")
    fails("CREATE MATERIALIZED VIEW m AS SELECT v, v FROM t", "42701")
    fails("CREATE TABLE t (v INT)", "42P07")
    fails("CREATE TABLE x (a INT, a INT)", "42701")
    fails("CREATE TABLE x (a INT, PRIMARY KEY (b))", "42703")
    fails("CREATE TABLE x (a INT DEFAULT 'x')", "22P02")
    fails("CREATE TABLE x (a INT, WATERMARK FOR a AS a)", "42804")
    fails("CREATE TABLE x (a TIMESTAMP, WATERMARK FOR b AS b)", "42703")
    fails("CREATE TABLE x (a INT) WITH (nope = 'y')", "0A000")
    assert set(db.engine.circuit.nodes) == nodes
    assert db.execute("SHOW TABLES").fetchall() == [("t",)]


def test_what_comes_later_is_refused_with_a_way_round(db, fails):
    db.execute("CREATE TABLE t (v INT)")
    assert fails("CREATE SINK k FROM t WITH (connector = 'x')", "0A000").hint


# --- settings -----------------------------------------------------------------------------------
def test_set_show_reset_and_the_hook_for_clients(db, fails):
    session = db.session()
    seen = []
    session.on_parameter = lambda name, value: seen.append((name, value))
    session.execute("SET TIME ZONE 'europe/paris'")
    assert session.execute("SHOW TIME ZONE").fetchall() == [("Europe/Paris",)]
    assert session.execute("SHOW timezone").columns[0].name == "TimeZone"
    session.execute("SET application_name TO 'x'")
    session.execute("RESET ALL")
    assert seen == [
        ("TimeZone", "Europe/Paris"), ("application_name", "x"),
        ("TimeZone", "UTC"), ("application_name", ""),
    ]  # fmt: skip
    assert session.parameters["server_version"].startswith("15")
    fails("SET nope = 1", "42704")
    fails("SHOW nope", "42704")
    fails("SET timezone = 'Mars/Base'", "22023")
    fails("SET server_version = '1'", "55P02")
    fails("SET statement_timeout = 'x'", "22023")


def test_statement_timeout_stops_a_query(db, fails):
    db.execute("SET statement_timeout = '50ms'")
    error = fails(
        "SELECT sum(a * b % 7) FROM generate_series(1, 100000) x(a), generate_series(1, 100000) y(b)",
        "57014",
    )
    assert error.message == "canceling statement due to statement timeout"
    db.execute("RESET statement_timeout")
    assert db.execute("SELECT 1").fetchall() == [(1,)]


def test_discard_all(db):
    session = db.session()
    session.execute(
        "CREATE TEMP TABLE x (a INT); PREPARE p AS SELECT 1; SET timezone = 'Asia/Tokyo'"
    )
    assert session.execute("DISCARD ALL").tag == "DISCARD ALL"
    for sql in ("SELECT * FROM x", "EXECUTE p"):
        with pytest.raises(StreamSqlError):
            session.execute(sql)
    assert session.execute("SHOW timezone").fetchall() == [("UTC",)]


def test_temporary_tables_belong_to_their_session(db, fails):
    session = db.session()
    db.execute("CREATE TABLE x (a INT); INSERT INTO x VALUES (1)")
    session.execute("CREATE TEMP TABLE x (a INT)")
    session.execute("INSERT INTO x VALUES (2)")
    assert session.execute("SELECT * FROM x").fetchall() == [(2,)]
    assert db.execute("SELECT * FROM x").fetchall() == [(1,)]
    with pytest.raises(StreamSqlError) as caught:
        session.execute("CREATE MATERIALIZED VIEW m AS SELECT * FROM x")
    assert caught.value.sqlstate == "0A000"
    session.close()
    assert not [s for s in db.engine.catalog.schemas if s.startswith("pg_temp")]


# --- prepared statements ------------------------------------------------------------------------
def test_prepare_types_parameters_and_columns(db):
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
    session = db.session()

    def prepare(sql, oids=()):
        return session.prepare(session.parse(sql)[0], oids)

    found = prepare("SELECT v, $1 AS x, id + $2 FROM t WHERE id = $3")
    assert found.parameter_types == (TEXT, INTEGER, INTEGER)
    oid = db.engine.catalog.get("public", "t").oid
    assert [(c.name, c.table_oid, c.attnum) for c in found.columns] == [
        ("v", oid, 2), ("x", 0, 0), ("?column?", 0, 0)
    ]  # fmt: skip
    assert prepare("SELECT $1", (20,)).parameter_types == (BIGINT,)
    assert prepare("INSERT INTO t VALUES ($1, $2)").parameter_types == (INTEGER, TEXT)
    assert prepare("INSERT INTO t VALUES ($1, $2)").columns is None
    update = prepare("UPDATE t SET v = $1 WHERE id = $2 RETURNING *")
    assert update.parameter_types == (TEXT, INTEGER)
    assert [c.name for c in update.columns] == ["id", "v"]
    assert [c.name for c in prepare("SHOW ALL").columns] == ["name", "setting", "description"]
    assert prepare("BEGIN").columns is None
    assert session.run(prepare("SELECT $1::int + 1"), ("41",)).fetchall() == [(42,)]


def test_prepared_statement_is_bound_anew_after_ddl(db):
    session = db.session()
    db.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)")
    prepared = session.prepare(session.parse("SELECT * FROM t")[0])
    assert session.run(prepared).fetchall() == [(1,)]
    db.execute("DROP TABLE t; CREATE TABLE t (b TEXT, c INT); INSERT INTO t VALUES ('x', 2)")
    assert session.run(prepared).fetchall() == [("x", 2)]


def test_sql_prepare_execute_deallocate(db, fails):
    db.execute("PREPARE p (int) AS SELECT $1 + 1 AS x")
    assert db.execute("EXECUTE p (2 * 3)").fetchall() == [(7,)]
    fails("PREPARE p AS SELECT 1", "42P05")
    assert fails("EXECUTE p (1, 2)", "42601").detail == "Expected 1 parameters but got 2."
    db.execute("DEALLOCATE p")
    fails("EXECUTE p (1)", "26000")


def test_question_marks_are_placeholders_too(db):
    assert db.execute("SELECT ?::int + ?, '?'", [1, 2]).fetchall() == [(3, "?")]
    found = db.execute("SELECT '{\"a\": 1}'::jsonb ? $1", ["a"]).fetchall()
    assert found == [(True,)]


def test_values_without_a_type_of_their_own_keep_their_python_type(db):
    assert db.execute("SELECT $1, $2, $3", [5, True, "x"]).fetchall() == [(5, True, "x")]
    assert db.execute("SELECT upper($1)", ["x"]).fetchall() == [("X",)]


def test_wrong_number_of_parameters(fails):
    fails("SELECT $1 + 1", "08P01", [1, 2])
    fails("SELECT $1", "42P02")


# --- the rest -----------------------------------------------------------------------------------
def test_manual_clock_moves_by_hand_and_never_back(db, fails):
    fails("ADVANCE CLOCK BY INTERVAL '1 hour'", "55000")
    db.execute("SET streamsql.clock = 'manual'")
    db.execute("ADVANCE CLOCK TO '2040-01-01 00:00:00+00'")
    db.execute("ADVANCE CLOCK BY INTERVAL '90 minutes'")
    assert str(db.execute("SELECT now()").fetchall()[0][0]) == "2040-01-01 01:30:00+00:00"
    fails("ADVANCE CLOCK TO '2030-01-01 00:00:00+00'", "22023")


def test_advance_watermark_closes_windows(db, rows, fails):
    db.execute("CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS ts)")
    db.execute(
        "CREATE MATERIALIZED VIEW w AS SELECT window_start, count(*) AS n "
        "FROM TUMBLE(t, ts, INTERVAL '1 minute') GROUP BY window_start EMIT ON WINDOW CLOSE"
    )
    db.execute("INSERT INTO t VALUES ('2024-01-01 00:00:30')")
    assert rows("SELECT n FROM w") == []
    db.execute("ADVANCE WATERMARK FOR t TO '2024-01-01 00:01:00'")
    assert rows("SELECT n FROM w") == [(1,)]
    db.execute("CREATE TABLE plain (a INT)")
    fails("ADVANCE WATERMARK FOR plain TO '2024-01-01'", "55000")


def test_late_rows_are_recorded(db, rows):
    db.execute("CREATE TABLE t (ts TIMESTAMP, v INT, WATERMARK FOR ts AS ts)")
    db.execute(
        "CREATE MATERIALIZED VIEW w AS SELECT window_start, count(*) AS n "
        "FROM TUMBLE(t, ts, INTERVAL '1 minute') GROUP BY window_start"
    )
    db.execute("INSERT INTO t VALUES ('2024-01-01 01:00:00', 1), ('2024-01-01 00:00:00', 2)")
    assert rows("SELECT n FROM w") == [(1,)]
    found = rows("SELECT view, source, event_time::text, late_by::text FROM streamsql.late_rows")
    assert found == [("w", "t", "2024-01-01 00:00:00", "01:00:00")]
    assert rows("SELECT count(*) FROM t") == [(2,)]


LATE = "SELECT view, source, row::jsonb->>'id' FROM streamsql.late_rows"
WINDOWS_JOINED = """
    SELECT window_start, k, count(*) AS n
    FROM TUMBLE(a, at, INTERVAL '1 minute') JOIN TUMBLE(b, at, INTERVAL '1 minute')
        USING (window_start, window_end, k)
    GROUP BY 1, 2
"""
NEAR = """
    SELECT a.id AS x, b.id AS y FROM a JOIN b
        ON a.k = b.k AND b.at BETWEEN a.at - INTERVAL '1 minute' AND a.at + INTERVAL '1 minute'
"""
AS_OF = "SELECT a.id AS x, b.id AS y FROM a JOIN b FOR SYSTEM_TIME AS OF a.at ON a.k = b.k"
CLOSED = """
    SELECT a.id AS x, b.id AS y FROM a ASOF JOIN b ON a.k = b.k AND a.at >= b.at
    EMIT ON WINDOW CLOSE
"""


@pytest.mark.parametrize("query", [WINDOWS_JOINED, NEAR, AS_OF, CLOSED])
@pytest.mark.parametrize("first", ["a", "b"])
@pytest.mark.parametrize("altered", [False, True])
def test_late_rows_of_a_join_name_the_side_they_came_from(db, rows, query, first, altered):
    for name in "ab" if first == "a" else "ba":
        key = "PRIMARY KEY" if name == "b" and query is AS_OF else ""
        db.execute(f"CREATE TABLE {name} (id INT, k TEXT {key}, at TIMESTAMP, "
                   "WATERMARK FOR at AS at)")  # fmt: skip
    db.execute(f"CREATE MATERIALIZED VIEW w AS {query}")
    if altered:
        db.execute("ALTER TABLE a ADD COLUMN more INT; ALTER TABLE b ADD COLUMN more INT")
    row = "INSERT INTO {} (id, k, at) VALUES ({}, '{}', '2024-01-01 {}')"
    for number, name in enumerate("ab"):
        db.execute(row.format(name, number, f"{name}1", "09:05"))
    for number, name in enumerate("ab"):
        db.execute(row.format(name, number + 7, f"{name}2", "09:00:10"))
    assert sorted(rows(LATE)) == [("w", "a", "7"), ("w", "b", "8")]


def test_late_rows_above_a_join_name_both_sides(db, rows):
    db.execute("""
        CREATE TABLE a (id INT, at TIMESTAMP, WATERMARK FOR at AS at);
        CREATE TABLE b (id INT, at TIMESTAMP);
        CREATE TABLE c (id INT);
        CREATE MATERIALIZED VIEW w AS
            SELECT window_start, count(*) AS n
            FROM TUMBLE((SELECT a.at, a.id FROM a JOIN b USING (id)), at, INTERVAL '1 minute')
            WHERE EXISTS (SELECT FROM c WHERE c.id > 0) GROUP BY 1;
        INSERT INTO b VALUES (7, NULL); INSERT INTO c VALUES (1);
        INSERT INTO a VALUES (1, '2024-01-01 09:05'); INSERT INTO a VALUES (7, '2024-01-01 09:00')
    """)
    assert sorted(rows(LATE)) == [("w", "a, b", "7")]


def test_rows_far_in_the_future_do_not_move_the_watermark(db, rows):
    db.execute("CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS ts)")
    db.execute("INSERT INTO t VALUES ('2024-01-01'), ('2999-01-01'), ('2024-01-02')")
    assert rows("SELECT watermark::text FROM streamsql.watermarks") == [("2024-01-02 00:00:00",)]
    assert rows("SELECT source, payload FROM streamsql.source_errors") == [
        ("t", '{"ts":"2999-01-01 00:00:00"}')
    ]


def test_errors_of_a_view_are_recorded_and_heal(db, rows, fails):
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, b INT)")
    db.execute("CREATE MATERIALIZED VIEW s AS SELECT id, 10 / b AS q FROM t")
    db.execute(
        "CREATE MATERIALIZED VIEW f WITH (on_error = 'fail') AS SELECT id, 10 / b AS q FROM t"
    )
    db.execute("INSERT INTO t VALUES (1, 2), (2, 0)")
    assert rows("SELECT * FROM s") == [(1, 5)]
    assert ("s", "22012", "division by zero") in rows(
        "SELECT view, sqlstate, message FROM streamsql.view_errors"
    )
    fails("SELECT * FROM f", "22012")
    db.execute("DELETE FROM t WHERE id = 2")
    assert rows("SELECT * FROM f") == [(1, 5)]
    assert rows("SELECT * FROM streamsql.view_errors") == []


def test_verify_finds_nothing_wrong(db):
    db.execute("CREATE TABLE t (v INT); INSERT INTO t VALUES (1), (1), (2)")
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT v, count(*) AS n FROM t GROUP BY v")
    assert db.execute("VERIFY MATERIALIZED VIEW m").fetchall() == []
    oid = db.engine.catalog.get("public", "m").oid
    view = db.engine.views[oid]
    wrong = view.contents().take([0]).negate()
    view.store.apply(wrong)
    assert len(db.execute("VERIFY MATERIALIZED VIEW m").fetchall()) == 1


def test_system_relations_join_with_each_other(db, rows):
    db.execute("CREATE TABLE t (v INT); CREATE MATERIALIZED VIEW m AS SELECT sum(v) AS s FROM t")
    assert rows(
        "SELECT j.relation, count(*) > 0 FROM streamsql.jobs j "
        "JOIN streamsql.operators o ON o.view = j.relation GROUP BY j.relation"
    ) == [("m", True)]


def test_result_is_taken_by_other_libraries(db):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    import duckdb

    db.execute("CREATE TABLE t (v INT, w TEXT); INSERT INTO t VALUES (1, 'a')")
    assert db.execute("SELECT * FROM t").arrow().to_pydict() == {"v": [1], "w": ["a"]}
    assert polars.DataFrame(db.execute("SELECT * FROM t")).rows() == [(1, "a")]
    result = db.execute("SELECT * FROM t")  # noqa: F841  (DuckDB finds it by its name)
    with duckdb.connect() as connection:
        assert connection.sql("SELECT v + 1 FROM result").fetchall() == [(2,)]
    frame = pandas.api.interchange.from_dataframe(db.execute("SELECT v FROM t").arrow())
    assert frame.v.tolist() == [1]


def test_dates_that_python_can_not_hold_come_as_text(db):
    rows = db.execute(
        "SELECT d, d::timestamp FROM (VALUES ('0044-03-15 BC'::date), ('2024-01-01'), "
        "('infinity'), (NULL)) v(d)"
    ).fetchall()
    assert rows == [
        ("0044-03-15 BC", "0044-03-15 00:00:00 BC"),
        (date(2024, 1, 1), datetime(2024, 1, 1)),
        ("infinity", "infinity"),
        (None, None),
    ]


def test_error_behind_the_first_batch_is_postgresqls(fails):
    sql = "SELECT g * 7919 FROM generate_series(1, 1000000) g(g)"
    assert fails(sql, "22003").message == "integer out of range"


def test_a_closed_database_says_that_it_is():
    with streamsql.connect() as database:
        own, ended = database.session(), database.session()
        database.execute("CREATE TABLE t (a INT)")
        ended.close()
        with pytest.raises(StreamSqlError, match="terminating connection"):
            ended.execute("SELECT 1")
    uses = [
        lambda: database.execute("SELECT 1"),
        lambda: database.execute("INSERT INTO t VALUES (1)"),
        lambda: database.insert("t", [{"a": 1}]),
        lambda: database.subscribe("t"),
        lambda: own.execute("SELECT 1"),
        lambda: ended.execute("SELECT 1"),
    ]
    for use in uses:
        with pytest.raises(StreamSqlError) as caught:
            use()
        assert (caught.value.sqlstate, caught.value.message) == ("57P01", "the database is closed")


def test_repr_of_a_result_is_one_short_line(db):
    assert repr(db.execute("CREATE TABLE t (a INT, b TEXT)")) == "<Result CREATE TABLE>"
    assert repr(db.execute("INSERT INTO t VALUES (1, 'x')")) == "<Result INSERT 0 1>"
    result = db.execute("SELECT * FROM t")
    assert repr(result).startswith("<Result SELECT (a, b)")
    result.fetchall()
    assert repr(result) == "<Result SELECT (a, b) 1 row>"
    wide = db.execute("SELECT " + ", ".join(f"{i} AS c{i}" for i in range(100)))
    assert "c7, and 92 more)" in repr(wide) and len(repr(wide)) < 80


def test_old_window_syntax_knows_the_row_time_of_a_window(db):
    db.execute("CREATE TABLE o (k INT, ts TIMESTAMP)")
    db.execute("INSERT INTO o VALUES (1, '2024-01-01 00:00:05'), (2, '2024-01-01 00:01:59')")
    minute = "INTERVAL '1' MINUTE"
    last = [(datetime(2024, 1, 1, 0, m, 59, 999999), n) for m, n in ((0, 1), (1, 1))]
    found = db.execute(
        f"SELECT TUMBLE_ROWTIME(ts, {minute}), count(*) FROM o GROUP BY TUMBLE(ts, {minute})"
    ).fetchall()
    assert sorted(found) == last
    db.execute(
        f"CREATE MATERIALIZED VIEW s AS SELECT k, SESSION_ROWTIME(ts, {minute}) AS r, "
        f"SESSION_END(ts, {minute}) AS e FROM o GROUP BY k, SESSION(ts, {minute})"
    )
    assert sorted(db.execute("SELECT * FROM s").fetchall()) == [
        (1, datetime(2024, 1, 1, 0, 1, 4, 999999), datetime(2024, 1, 1, 0, 1, 5)),
        (2, datetime(2024, 1, 1, 0, 2, 58, 999999), datetime(2024, 1, 1, 0, 2, 59)),
    ]


def test_settings_of_flink_say_that_they_have_no_effect(db):
    def told(sql):
        return [(n.severity, n.message, n.hint) for n in db.execute(sql).notices]

    assert told("SET application.name = 'x'") == []
    db.execute("SET dialect = 'flink'")
    assert told("SET 'no.such.thing' = 'x'") == [
        ("WARNING", 'parameter "no.such.thing" has no effect', None)
    ]
    ((severity, _, hint),) = told("SET 'table.exec.source.idle-timeout' = '10 s'")
    assert severity == "WARNING" and "idle_timeout = '30s'" in hint
    assert "SET timezone" in told("SET 'table.local-time-zone' = 'UTC'")[0][2]
    assert told("RESET 'no.such.thing'") == told("SET 'streamsql.dialect' = 'flink'") == []
    db.execute("CREATE TABLE t (a INT, ts TIMESTAMP(3)) WITH (idle_timeout = '30s')")
