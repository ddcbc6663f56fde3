"""COMMENT ON every kind of object, DROP with and without CASCADE, ALTER of indexes and
subscriptions."""

from __future__ import annotations

import pytest

SETUP = """
CREATE TABLE t (id INT PRIMARY KEY, a INT UNIQUE, CONSTRAINT pos CHECK (a > 0));
CREATE VIEW v AS SELECT * FROM t;
CREATE MATERIALIZED VIEW m AS SELECT a, count(*) AS n FROM v GROUP BY a;
CREATE INDEX i ON t (a);
CREATE SOURCE s (a INT) WITH (connector = 'datagen');
CREATE SCHEMA q;
CREATE SUBSCRIPTION sub FROM m WITH (retention = '1 day')
"""


@pytest.fixture
def made(db):
    db.execute(SETUP)
    return db


def test_comments_are_where_psql_looks(made, rows):
    for kind, name in (
        ("TABLE", "t"), ("VIEW", "v"), ("MATERIALIZED VIEW", "m"), ("INDEX", "i"), ("SOURCE", "s"),
        ("SUBSCRIPTION", "sub"), ("INDEX", "t_pkey"), ("COLUMN", "t.a"), ("COLUMN", "m.n"),
        ("SCHEMA", "q"), ("DATABASE", "streamsql"), ("CONSTRAINT", "t_a_key ON t"),
    ):  # fmt: skip
        made.execute(f"COMMENT ON {kind} {name} IS 'about {name}'")
    assert rows(
        "SELECT relname, obj_description(oid, 'pg_class') FROM pg_class "
        "WHERE obj_description(oid, 'pg_class') LIKE 'about%'"
    ) == [(n, f"about {n}") for n in ("i", "m", "s", "t", "t_pkey", "v")]
    assert rows("SELECT col_description('t'::regclass, 2), col_description('m'::regclass, 2)") == [
        ("about t.a", "about m.n")
    ]
    assert rows("SELECT shobj_description(oid, 'pg_database') FROM pg_database") == [
        ("about streamsql",)
    ]
    assert rows("SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace "
                "WHERE nspname = 'q'") == [("about q",)]  # fmt: skip
    assert rows("SELECT obj_description(oid, 'pg_constraint') FROM pg_constraint "
                "WHERE conname = 't_a_key'") == [("about t_a_key ON t",)]  # fmt: skip
    made.execute("COMMENT ON TABLE t IS NULL")
    assert rows("SELECT obj_description('t'::regclass, 'pg_class')") == [(None,)]


def test_comments_that_have_no_object(made, fails):
    fails("COMMENT ON TABLE nope IS 'x'", "42P01")
    assert fails("COMMENT ON VIEW t IS 'x'", "42809").message == '"t" is not a view'
    fails("COMMENT ON TABLE m IS 'x'", "42809")
    fails("COMMENT ON COLUMN t.zz IS 'x'", "42703")
    fails("COMMENT ON COLUMN streamsql.jobs.id IS 'x'", "42501")
    fails("COMMENT ON SINK k IS 'x'", "42704")
    fails("COMMENT ON SCHEMA nope IS 'x'", "3F000")
    fails("COMMENT ON CONSTRAINT nope ON t IS 'x'", "42704")
    fails("COMMENT ON CONSTRAINT pos ON t IS 'x'", "0A000")


def test_comments_follow_a_rename_and_go_with_the_object(made, rows):
    made.execute("COMMENT ON TABLE t IS 'kept'; ALTER TABLE t RENAME TO u")
    assert rows("SELECT obj_description('u'::regclass, 'pg_class')") == [("kept",)]
    made.execute("DROP TABLE u CASCADE; CREATE TABLE u (a INT)")
    assert rows("SELECT obj_description('u'::regclass, 'pg_class')") == [(None,)]


def test_drop_names_what_depends_on_it(made, fails, rows):
    error = fails("DROP TABLE t RESTRICT", "2BP01")
    assert error.detail.splitlines() == [
        "view v depends on table t",
        "materialized view m depends on view v",
        "subscription sub depends on materialized view m",
    ]
    notices = made.execute("DROP VIEW v CASCADE").notices
    assert [n.message for n in notices] == ["drop cascades to 2 other objects"]
    assert rows("SHOW MATERIALIZED VIEWS") == rows("SHOW SUBSCRIPTIONS") == []
    made.execute("DROP TABLE t")
    assert rows("SHOW INDEXES") == []


def test_indexes_and_subscriptions_follow_and_are_renamed(made, rows):
    made.execute("ALTER INDEX i RENAME TO by_a; ALTER SUBSCRIPTION sub RENAME TO changes")
    made.execute("ALTER TABLE t RENAME COLUMN a TO b; ALTER TABLE t RENAME TO u")
    made.execute("ALTER MATERIALIZED VIEW m RENAME TO mm")
    names = {r[0]: r[1:3] for r in rows("SHOW INDEXES FROM u")}
    assert names["by_a"][0] == "u" and names["by_a"][1] == "b"
    assert rows("SHOW SUBSCRIPTIONS")[0][:2] == ("changes", "mm")
    assert rows("SHOW CREATE SUBSCRIPTION changes")[0][1] == (
        "CREATE SUBSCRIPTION changes FROM mm WITH (retention = '1 day')"
    )
    made.execute("INSERT INTO u VALUES (1, 5); ALTER TABLE u ADD COLUMN c INT DEFAULT 3")
    assert rows("SELECT c FROM u WHERE b = 5") == [(3,)]
    made.execute("ALTER TABLE u DROP COLUMN c")
    assert rows("SELECT id FROM u WHERE b = 5") == [(1,)]
