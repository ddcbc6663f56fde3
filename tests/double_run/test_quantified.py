"""x = ANY (array column) and its kin: one expression of the row, in views too, and three-valued."""

from __future__ import annotations

import pytest

import streamsql
from streamsql.core.errors import StreamSqlError

ROWS = """(1, 3, '{1,2,3}'), (2, 4, '{1,2,3}'), (3, 4, '{1,NULL}'), (4, 1, '{1,NULL}'), (5, NULL, '{1}'),
          (6, NULL, '{}'), (7, 1, '{}'), (8, 1, NULL), (9, 2, '{2,2}')"""
ANSWERS = {
    "v = ANY (l)": [True, False, None, True, None, False, False, None, True],
    "v <> ANY (l)": [True, True, True, None, None, False, False, None, False],
    "v <> ALL (l)": [False, True, None, False, None, True, True, None, False],
    "v = ALL (l)": [False, False, False, None, None, True, True, None, True],
    "v > ALL (l)": [False, True, None, False, None, True, True, None, False],
    "v >= ANY (l)": [True, True, True, True, None, False, False, None, True],
    "v < ANY (l)": [False, False, None, None, None, False, False, None, False],
    "2 = ANY (l)": [True, True, None, None, False, False, False, None, True],
    "v + 0.0 = ANY (l)": [True, False, None, True, None, False, False, None, True],
}


@pytest.mark.parametrize("test", ANSWERS)
def test_answers_are_those_of_postgresql(test: str) -> None:
    with streamsql.connect() as db:
        db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT, l INT[])")
        db.execute(f"CREATE MATERIALIZED VIEW m AS SELECT id, {test} AS x FROM t")
        db.execute(f"CREATE MATERIALIZED VIEW w AS SELECT id FROM t WHERE {test}")
        db.execute(f"INSERT INTO t VALUES {ROWS}")
        wanted = list(enumerate(ANSWERS[test], 1))
        assert db.execute(f"SELECT id, {test} AS x FROM t ORDER BY id").fetchall() == wanted
        assert db.execute("SELECT * FROM m ORDER BY id").fetchall() == wanted
        kept = [(i,) for i, x in wanted if x]
        assert db.execute("SELECT * FROM w ORDER BY id").fetchall() == kept
        for view in ("m", "w"):
            assert db.execute(f"VERIFY MATERIALIZED VIEW {view}").fetchall() == []
        for query in (f"SELECT id, {test} AS x FROM t", f"SELECT id FROM t WHERE {test}"):
            how = db.execute(f"EXPLAIN CREATE MATERIALIZED VIEW n AS {query}").fetchall()[0]
            assert how == ("Maintenance: incremental",)


def test_types_that_do_not_compare_are_refused_as_before() -> None:
    with streamsql.connect() as db:
        db.execute("CREATE TABLE t (v INT, l TEXT[])")
        with pytest.raises(StreamSqlError, match="operator does not exist: integer = text"):
            db.execute("SELECT v = ANY (l) FROM t")
