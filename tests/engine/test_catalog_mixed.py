"""Catalog relations beside users' ones, sessions and what they run, SHOW of every kind."""

from __future__ import annotations

import threading

import pytest

from streamsql.core.errors import StreamSqlError
from streamsql.dialect.utility.show import KINDS


@pytest.fixture(autouse=True)
def setup(db):
    db.execute("""
        CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMP,
                        WATERMARK FOR ts AS ts - INTERVAL '5 seconds');
        CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n FROM t;
        CREATE TABLE notes (relation TEXT, note TEXT);
        INSERT INTO notes VALUES ('t', 'a table'), ('m', 'a view'), ('x', 'nothing')
    """)


def test_catalog_relations_are_joined_with_users_relations(db, rows):
    assert rows("""
        SELECT c.relname, c.relkind, n.note FROM pg_class c JOIN notes n ON n.relation = c.relname
    """) == [("m", "m", "a view"), ("t", "r", "a table")]
    assert rows("""
        SELECT note FROM notes WHERE relation NOT IN
            (SELECT table_name FROM information_schema.tables WHERE table_schema = 'public')
    """) == [("nothing",)]
    assert rows(
        """
        SELECT a.attname, n.note FROM pg_catalog.pg_attribute a
        JOIN pg_class c ON c.oid = a.attrelid JOIN notes n ON n.relation = c.relname
        WHERE a.attnum = $1
    """,
        [1],
    ) == [("id", "a table"), ("n", "a view")]
    assert rows("SELECT s.name FROM streamsql.settings s JOIN pg_settings p USING (name)"
                " WHERE p.short_desc = s.description AND s.name LIKE 'streamsql.v%'") == [
        ("streamsql.version",), ("streamsql.version_notice",)
    ]  # fmt: skip


def test_what_is_written_from_the_catalog(db, rows):
    db.execute("INSERT INTO notes SELECT relname, 'copied' FROM pg_class WHERE relname = 'm'")
    db.execute("CREATE TABLE kinds AS SELECT relname AS name, relkind AS kind FROM pg_class"
               " WHERE relname IN (SELECT relation FROM notes)")  # fmt: skip
    assert rows("SELECT * FROM kinds") == [("m", "m"), ("t", "r")]
    session = db.session()
    session.execute("BEGIN; CREATE TABLE fresh (a INT); INSERT INTO notes VALUES ('fresh', '!')")
    sql = "SELECT note FROM notes JOIN pg_class ON relname = relation WHERE relname = 'fresh'"
    assert session.execute(sql).fetchall() == [("!",)]
    assert rows(sql) == []


def test_views_over_the_catalog_and_unknown_names_are_refused(fails):
    fails("CREATE MATERIALIZED VIEW v AS SELECT relname FROM pg_class", "42P01")
    error = fails("SELECT * FROM notes, pg_nothing", "42P01")
    assert error.message == 'relation "pg_nothing" does not exist'


def test_sessions_show_what_they_run(db, rows):
    session = db.session(user="ann")
    session.execute("SET application_name = 'report'")
    session.execute("BEGIN; SELECT 1")
    sql = ("SELECT state, query, application_name, xact_start IS NULL, query_start <= now()"
           " FROM pg_stat_activity WHERE usename = 'ann'")  # fmt: skip
    assert rows(sql) == [("idle in transaction", "SELECT 1", "report", False, True)]
    with pytest.raises(StreamSqlError):
        session.execute("SELECT nope")
    assert rows(sql)[0][:2] == ("idle in transaction (aborted)", "SELECT nope")
    session.execute("ROLLBACK")
    assert rows(sql) == [("idle", "ROLLBACK", "report", True, True)]
    batches = session.execute("SUBSCRIBE m").batches
    next(batches)
    assert rows(sql)[0][:2] == ("active", "SUBSCRIBE m")
    batches.close()
    assert rows(sql)[0][0] == "idle"
    session.close()
    assert rows(sql) == []


def test_a_running_statement_is_active_and_in_the_processlist(db, rows):
    session = db.session(user="ann")
    thread = threading.Thread(target=lambda: session.execute("SELECT pg_sleep(0.3)"))
    thread.start()
    found = []
    while thread.is_alive() and not found:
        found = [r for r in rows("SHOW PROCESSLIST") if r[1] == "ann" and r[3] == "active"]
    thread.join()
    assert found[0][5] == "SELECT pg_sleep(0.3)"
    assert [r[3] for r in rows("SHOW PROCESSLIST") if r[1] == "ann"] == ["idle"]


def test_show_answers_for_every_kind(db):
    described = set()
    for words, kind in KINDS:
        result = db.execute(f"SHOW {' '.join(words)}")
        assert result.columns, kind
        result.fetchall()
        described.add(kind)
    assert {"subscriptions", "indexes", "jobs", "processlist"} <= described
    names = [r[0] for r in db.execute("SHOW TABLES FROM streamsql").fetchall()]
    assert {"late_rows", "watermarks", "indexes", "retained_versions"} <= set(names)


def test_system_relations_are_tables_and_watermarks_are_rules(rows):
    assert ("streamsql", "late_rows") in rows("SELECT schemaname, tablename FROM pg_tables")
    assert rows("""
        SELECT c.relname, c.relhasrules, pg_get_ruledef(r.oid)
        FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class WHERE r.rulename = 'watermark'
    """) == [("t", True, "CREATE RULE WATERMARK FOR ts AS ts - INTERVAL '5 seconds'")]
    assert rows("SELECT current_setting('streamsql.retention')") == [("off",)]
