"""Temporary tables hide others for their session, and nothing else is created beside them."""

from __future__ import annotations


def test_tables_made_after_a_temporary_one_are_permanent(db, rows):
    session = db.session()
    session.execute("CREATE TABLE t (a INT)")
    session.execute("INSERT INTO t VALUES (1)")
    session.execute("CREATE TEMPORARY TABLE t (b TEXT)")
    session.execute("CREATE TABLE u (a INT)")
    session.execute("CREATE VIEW v AS SELECT 1 AS a")
    assert session.execute("SELECT * FROM t").fetchall() == []
    assert session.execute("SELECT * FROM public.t").fetchall() == [(1,)]
    session.close()
    assert rows("SELECT * FROM t") == [(1,)]
    assert rows("SELECT * FROM u") == []
    assert rows("SELECT * FROM v") == [(1,)]


def test_a_relation_of_another_database_is_refused(fails):
    error = fails("SELECT * FROM other.public.t", "0A000")
    assert error.position == len("SELECT * FROM ")
    fails("SELECT * FROM streamsql.public.t", "42P01")
