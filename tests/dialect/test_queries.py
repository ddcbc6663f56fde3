"""Queries: clauses, FROM, joins, set operations."""

from __future__ import annotations

import pytest
from sqlglot import exp

from streamsql.core.errors import FeatureNotSupported, SqlSyntaxError
from streamsql.dialect import parse
from streamsql.dialect.generator import to_sql
from streamsql.dialect.statements import Query, Subscribe


def query(sql: str) -> exp.Expression:
    (statement,) = parse(sql)
    assert isinstance(statement, Query)
    return statement.query


GOOD_QUERIES = [
    "SELECT", "SELECT FROM t", "SELECT 1", "SELECT a, b AS c FROM t", "SELECT a b, c \"D\" FROM t",
    "SELECT *, t.*, s.a FROM t, s", "SELECT DISTINCT a FROM t", "SELECT DISTINCT ON (a, b) a, c FROM t ORDER BY a, b, c DESC",
    "SELECT ALL a FROM t", "SELECT a FROM t WHERE a > 1 GROUP BY a HAVING count(*) > 1 ORDER BY 1 LIMIT 10 OFFSET 5",
    "SELECT a FROM t LIMIT ALL", "SELECT a FROM t OFFSET 5 ROWS FETCH FIRST 3 ROWS ONLY", "SELECT a FROM t FETCH NEXT ROW ONLY",
    "SELECT a FROM t ORDER BY a FETCH FIRST 3 ROWS WITH TIES", "SELECT a FROM t ORDER BY a ASC NULLS FIRST, b DESC NULLS LAST, c USING >",
    "SELECT a, count(*) FROM t GROUP BY GROUPING SETS ((a, b), (a), ()), ROLLUP (c, d), CUBE (e)",
    "SELECT a, grouping(a, b) FROM t GROUP BY ROLLUP (a, b)", "SELECT a FROM t GROUP BY ()", "SELECT a FROM t GROUP BY DISTINCT a",
    "SELECT sum(x) OVER w, rank() OVER (w ORDER BY b) FROM t WINDOW w AS (PARTITION BY a), v AS (w)",
    "SELECT a FROM t QUALIFY row_number() OVER (PARTITION BY a ORDER BY b) = 1",
    "SELECT * FROM a JOIN b ON a.x = b.x LEFT JOIN c USING (x, y) RIGHT OUTER JOIN d ON true FULL JOIN e ON false CROSS JOIN f NATURAL JOIN g",
    "SELECT * FROM a NATURAL LEFT JOIN b", "SELECT * FROM a INNER JOIN b ON a.x = b.x", "SELECT * FROM (a JOIN b ON a.x = b.x) JOIN c ON true",
    "SELECT * FROM a LEFT JOIN b JOIN c ON b.x = c.x ON a.x = b.x", "SELECT * FROM a LEFT JOIN (b CROSS JOIN c) ON a.x = b.x",
    "SELECT * FROM a ASOF JOIN b ON a.k = b.k AND b.t <= a.t", "SELECT * FROM a ASOF LEFT JOIN b ON a.k = b.k AND b.t <= a.t",
    "SELECT * FROM a ASOF JOIN b MATCH_CONDITION (a.t >= b.t) ON a.k = b.k", "SELECT * FROM a ASOF JOIN b MATCH_CONDITION (a.t >= b.t) USING (k)",
    "SELECT * FROM a JOIN b FOR SYSTEM_TIME AS OF PROCTIME() ON a.k = b.k", "SELECT * FROM a JOIN b FOR SYSTEM_TIME AS OF a.t AS r ON a.k = r.k",
    "SELECT * FROM t FOR SYSTEM_TIME AS OF 42", "SELECT * FROM a LEFT SEMI JOIN b ON a.x = b.x", "SELECT * FROM a ANTI JOIN b ON a.x = b.x",
    "SELECT * FROM t AS x (p, q)", "SELECT * FROM (SELECT 1) x", "SELECT * FROM (SELECT 1)", "SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v (n, s)",
    "SELECT * FROM generate_series(1, 10) AS g(i)", "SELECT * FROM unnest(ARRAY[1, 2], ARRAY[3]) WITH ORDINALITY AS u (a, b, n)",
    "SELECT * FROM f(1) AS (a int, b text)", "SELECT * FROM f(1) AS x (a int, b text[])", "SELECT * FROM ROWS FROM (f(1), g(2)) WITH ORDINALITY AS r",
    "SELECT * FROM t, LATERAL (SELECT t.a + 1) l", "SELECT * FROM t CROSS JOIN LATERAL unnest(t.xs) AS u (x)", "SELECT * FROM t LEFT JOIN LATERAL f(t.a) ON true",
    "SELECT * FROM s.t, db.s.u, ONLY v", "SELECT * FROM pg_catalog.pg_class c",
    "WITH a AS (SELECT 1), b (x) AS MATERIALIZED (SELECT 2), c AS NOT MATERIALIZED (TABLE a) SELECT * FROM a, b, c",
    "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r", "WITH a AS (VALUES (1)) VALUES (2)",
    "WITH a AS (SELECT 1) (SELECT * FROM a)",
    "SELECT 1 UNION SELECT 2 UNION ALL SELECT 3 EXCEPT SELECT 4 INTERSECT SELECT 5 ORDER BY 1 LIMIT 1", "(SELECT 1) UNION (SELECT 2 LIMIT 1) LIMIT 3",
    "((SELECT 1) UNION SELECT 2) EXCEPT ALL SELECT 3", "SELECT 1 UNION DISTINCT SELECT 1", "(SELECT 1 ORDER BY 1) ORDER BY 1", "TABLE t", "TABLE s.t ORDER BY 1", "VALUES (1, 2), (3, 4) ORDER BY 1 LIMIT 1",
    "SELECT (SELECT 1), EXISTS (SELECT 1), a IN (SELECT 1), a = ANY (SELECT 1), ((SELECT 1) + 1), ((SELECT 1))",
    "SELECT * FROM t WHERE (a, b) IN ((1, 2), (3, 4))", "SELECT * FROM t WHERE (a, b) = (SELECT 1, 2)", "SELECT * FROM t WHERE a IN ((SELECT 1) UNION SELECT 2)",
    "SELECT * FROM t FOR UPDATE OF t SKIP LOCKED", "SELECT ts AT TIME ZONE 'UTC' FROM t", "SELECT a COLLATE \"C\", b COLLATE pg_catalog.\"default\" FROM t",
    "SELECT 'a'::varchar(3), 1::numeric(5, 2)[], '{1,2}'::int[], x::pg_catalog.text, 'pg_class'::regclass FROM t",
    "SELECT CASE a WHEN 1 THEN 'x' ELSE 'y' END, CASE WHEN a THEN b END FROM t", "SELECT f(a => 1, VARIADIC b) FROM t",
    "SELECT t.a[1], (t.b).c, (f(x)).*, (ARRAY[1, 2])[1:2], t.a[2][3] FROM t", "SELECT interval '1 day' * 2, now() - INTERVAL '1' HOUR",
    "SELECT B'101', X'1F', E'\\n', U&'\\0061', $$x$$, N'x'", "SELECT $1::int, $2", "SELECT a.name, a.type, a.value, a.\"order\" FROM t a",
    "SELECT count(DISTINCT a), count(*) FILTER (WHERE b), string_agg(a, ',' ORDER BY b) FROM t", "SELECT (a, b) OVERLAPS (c, d) FROM t",
    "SELECT DATE '2024-01-01', TIMESTAMP '2024-01-01', TIMESTAMPTZ '2024-01-01', TIME '12:00', NUMERIC '1.5'", "SELECT CAST(a AS STRUCT<x INT, y ARRAY<TEXT>>) FROM t",
    "SELECT a::MAP(TEXT, INT), CAST(b AS MAP<STRING, ROW<a INT>>) FROM t", "SELECT GREATEST(a, b), LEAST(a, b), NULLIF(a, b), COALESCE(a, b) FROM t",
    "SELECT current_user, session_user, current_schema, user, localtimestamp", "SELECT sum(a) OVER (ORDER BY t RANGE BETWEEN INTERVAL '1 hour' PRECEDING AND CURRENT ROW) FROM t",
    "SELECT sum(a) OVER (ORDER BY t GROUPS 2 PRECEDING EXCLUDE CURRENT ROW) FROM t", "SELECT * FROM t tablealias, s AS \"S\"", "SELECT 1 AS select, 2 AS \"from\"",
    "SELECT a FROM t -- comment\n", "/* c */ SELECT 1 /* d */", "SELECT * FROM emit", "SELECT * FROM t emit", "SELECT x FROM t ORDER BY x <-> 3",
]  # fmt: skip


@pytest.mark.parametrize("sql", GOOD_QUERIES)
def test_query_form_parses_and_prints_as_the_same_tree(sql: str) -> None:
    tree = query(sql)
    printed = to_sql(tree)
    assert to_sql(query(printed)) == printed


@pytest.mark.parametrize(
    ("sql", "position"),
    [
        ("SELECT * FROM t WHERE", 21), ("SELECT (1", 9), ("SELECT a, FROM t", 10), ("SELECT * FROM", 13), ("SELECT * FROM t JOIN s", 22),
        ("SELECT * FROM t JOIN s ON", 25), ("SELECT * FROM t GROUP a", 22), ("SELECT * FROM t ORDER a", 22), ("SELECT * FROM t LIMIT", 21), ("SELECT * FROM t LIMIT 1, 2", 23),
        ("SELECT * FROM t LIMIT 1 LIMIT 2", 24), ("SELECT 1 UNION", 14), ("WITH a AS SELECT 1 SELECT 2", 10), ("WITH a (SELECT 1) SELECT 1", 8), ("SELECT * FROM (SELECT 1", 23),
        ("VALUES 1", 7), ("VALUES (1", 9), ("SELECT a FROM t WHERE a = = 1", 26), ("SELECT a b c FROM t", 11), ("SELECT * FROM t t2 t3", 19), ("SELECT 1 FROM t WHERE a IN ()", 28),
        ("TABLE", 5), ("SELECT * FROM a.b.c.d", 14), ("SELECT sum(a) OVER (PARTITION a) FROM t", 30), ("SELECT 1; SELECT 2 FROM FROM t", 24), ("SELECT * t", 9), ("SELECT FROM WHERE", 12),
        ("SELECT count(*) FILTER (a) FROM t", 24), ("SELECT sum(a) OVER (ROWS UNBOUNDED FOLLOWING) FROM t", 20), ("SELECT 'x' 'y'", 11), ("SELECT a FROM t ORDER BY a NULLS", 32),
    ],
)  # fmt: skip
def test_query_that_is_wrong_raises_at_its_position(sql: str, position: int) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse(sql)
    assert (caught.value.sqlstate, caught.value.position) == ("42601", position)


def test_query_error_wording_is_postgresqls() -> None:
    with pytest.raises(SqlSyntaxError, match=r'^syntax error at or near "form"$'):
        parse("SELECT * form t")
    with pytest.raises(SqlSyntaxError, match=r"^syntax error at end of input$"):
        parse("SELECT a FROM t WHERE")


def test_query_set_operations_nest_by_precedence() -> None:
    tree = query("SELECT 1 UNION ALL SELECT 2 INTERSECT SELECT 3 EXCEPT SELECT 4")
    assert isinstance(tree, exp.Except)
    assert isinstance(tree.this, exp.Union)
    assert tree.this.args["distinct"] is False
    assert isinstance(tree.this.expression, exp.Intersect)


def test_query_order_by_belongs_to_the_whole_union() -> None:
    tree = query("SELECT a FROM t UNION SELECT b FROM s ORDER BY 1 DESC LIMIT 3")
    assert tree.args["order"].expressions[0].args["nulls_first"] is True
    assert tree.args["limit"].expression.name == "3"
    assert "order" not in tree.expression.args


def test_query_names_fold_and_quoted_are_kept() -> None:
    tree = query('SELECT Foo."Bar" AS Baz, "X" FROM S.Foo AS Foo (A, "B")')
    column = tree.expressions[0].this
    assert (column.table, column.name) == ("foo", "Bar")
    assert tree.expressions[0].alias == "baz"
    table = tree.args["from_"].this
    assert (table.db, table.name, table.alias) == ("s", "foo", "foo")
    assert [c.name for c in table.args["alias"].columns] == ["a", "B"]


def test_query_in_several_statements_has_offset_and_own_text() -> None:
    first, second = parse("  SELECT 1 ;\n SELECT b FROM t ; ")
    assert (first.sql, first.position) == ("SELECT 1", 2)
    assert (second.sql, second.position) == ("SELECT b FROM t", 14)
    assert isinstance(second, Query)
    column = second.query.find(exp.Column)
    assert column.meta["start"] == second.sql.index("b")


def test_query_values_in_from_and_alone() -> None:
    assert isinstance(query("VALUES (1), (2)"), exp.Values)
    values = query("SELECT * FROM (VALUES (1)) v (a)").args["from_"].this
    assert isinstance(values, exp.Values)
    assert values.args["alias"].columns[0].name == "a"
    ordered = query("SELECT * FROM (VALUES (1) ORDER BY 1) v").args["from_"].this
    assert isinstance(ordered, exp.Subquery)


def test_query_functions_in_from_are_tables() -> None:
    table = query("SELECT * FROM unnest(x) WITH ORDINALITY u").args["from_"].this
    assert isinstance(table, exp.Table)
    assert isinstance(table.this, exp.Anonymous)
    assert table.args["ordinality"] is True


def test_query_fetch_with_ties_is_kept_apart() -> None:
    limit = query("SELECT 1 FETCH FIRST 2 ROWS WITH TIES").args["limit"]
    assert isinstance(limit, exp.Fetch)
    assert limit.args["limit_options"].args["with_ties"] is True
    assert isinstance(query("SELECT 1 FETCH FIRST 2 ROWS ONLY").args["limit"], exp.Limit)


@pytest.mark.parametrize("emit", ["CHANGES", "IMMEDIATELY"])
def test_query_with_emit_is_a_subscription(emit: str) -> None:
    (statement,) = parse(f"SELECT a FROM t WHERE b EMIT {emit}")
    assert isinstance(statement, Subscribe)
    assert statement.query is not None


@pytest.mark.parametrize(
    "sql",
    ["SELECT 1 EMIT FINAL", "SELECT * FROM (WITH a AS (DELETE FROM t RETURNING *) SELECT * FROM a) AS x", "SELECT 1 INTO t", "SELECT * FROM t TABLESAMPLE SYSTEM (1)"],
)  # fmt: skip
def test_query_construct_without_support_says_so_with_hint(sql: str) -> None:
    with pytest.raises(FeatureNotSupported) as caught:
        parse(sql)
    assert caught.value.hint
    assert caught.value.position is not None


def test_parse_cache_gives_equal_lists_that_callers_may_change() -> None:
    first = parse("SELECT 1")
    first.append(first[0])
    assert len(parse("SELECT 1")) == 1
    assert parse("SELECT 1")[0] is first[0]


def test_parse_cache_stays_small() -> None:
    from streamsql.dialect import router

    for number in range(3000):
        parse(f"SELECT {number} AS {'x' * 200}")
    assert sum(len(text) for text, _ in router._cache) == router._kept_characters
    assert router._kept_characters <= router._CACHE_CHARACTERS
    long = "SELECT '" + "x" * router._CACHE_TEXT_MAX + "'"
    parse(long)
    assert not any(text == long for text, _ in router._cache)


def test_parse_empty_text_is_one_empty_statement() -> None:
    from streamsql.dialect.statements import Empty

    for sql in ("", " ; ;", "-- nothing", "/* */"):
        (statement,) = parse(sql)
        assert isinstance(statement, Empty)
    assert len(parse(";SELECT 1;;")) == 1
