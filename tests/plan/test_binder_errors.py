"""Wrong queries: SQLSTATE, 0-based position and message, as PostgreSQL gives them."""

from __future__ import annotations

import pytest

from streamsql.core.errors import StreamSqlError
from streamsql.plan.optimizer import optimize
from streamsql.plan.sql import to_duckdb_sql
from tests.plan.support import bind

# (query, SQLSTATE, position, message)
ERRORS: tuple[tuple[str, str, int | None, str], ...] = (
    # names
    ("SELECT nme FROM k", "42703", 7, 'column "nme" does not exist'),
    ("SELECT k.nme FROM k", "42703", 7, "column k.nme does not exist"),
    ("SELECT x.id FROM t", "42P01", 7, 'missing FROM-clause entry for table "x"'),
    ("SELECT k.id FROM k q", "42P01", 7, 'invalid reference to FROM-clause entry for table "k"'),
    ("SELECT a FROM t JOIN u ON t.a = u.a", "42702", 7, 'column reference "a" is ambiguous'),
    ("SELECT * FROM nope", "42P01", 14, 'relation "nope" does not exist'),
    ("SELECT * FROM public.nope", "42P01", 14, 'relation "public.nope" does not exist'),
    ("SELECT 1 FROM t JOIN t ON true", "42712", None, 'table name "t" specified more than once'),
    ("SELECT 1 FROM t a, u a", "42712", 19, 'table name "a" specified more than once'),
    ("SELECT *", "42601", 7, "SELECT * with no tables specified is not valid"),
    ("SELECT t.* FROM u", "42P01", 7, 'missing FROM-clause entry for table "t"'),
    ('SELECT "Nope" FROM t', "42703", 7, 'column "Nope" does not exist'),
    # joins
    ("SELECT 1 FROM t x JOIN u y USING (zz)", "42703", 34,
     'column "zz" specified in USING clause does not exist in left table'),
    ("SELECT 1 FROM t x JOIN u y USING (c)", "42703", 34,
     'column "c" specified in USING clause does not exist in left table'),
    ("SELECT a FROM t x JOIN u y ON x.a = y.a JOIN t z USING (a)", "42702", 56,
     'common column name "a" appears more than once in left table'),
    ("SELECT q.* FROM u, t JOIN k ON u.a = k.id", "42P01", 31,
     'invalid reference to FROM-clause entry for table "u"'),
    ("SELECT a FROM t, (SELECT t.a FROM u) q", "42P01", 25,
     'invalid reference to FROM-clause entry for table "t"'),
    ("SELECT 1 FROM t x, (SELECT x.a) y RIGHT JOIN k ON true", "42P01", 27,
     'invalid reference to FROM-clause entry for table "x"'),
    ("SELECT 1 FROM t x, (SELECT 1 FROM u, LATERAL (SELECT x.a) z) y RIGHT JOIN k ON true", "42P01",
     53, 'invalid reference to FROM-clause entry for table "x"'),
    ("SELECT 1 FROM t x FULL JOIN (u JOIN LATERAL (SELECT x.a) y ON true) ON true", "42P10", 28,
     "invalid LATERAL reference to the left side of a FULL JOIN"),
    ("SELECT 1 FROM t JOIN u ON t.a", "42804", 26,
     "argument of JOIN/ON must be type boolean, not type integer"),
    ("SELECT * FROM ev a ASOF JOIN ev b ON a.g = b.g", "0A000", 41,
     "ASOF JOIN takes equalities between the two sides and exactly one inequality"),
    ("SELECT * FROM ev a ASOF JOIN ev b USING (g)", "0A000", 29,
     "ASOF JOIN with USING is not supported"),
    ("SELECT * FROM t a LEFT SEMI JOIN u b ON a.a = b.a", "0A000", 33,
     "SEMI JOIN is not supported"),
    # grouping
    ("SELECT b, count(*) FROM t", "42803", 7,
     'column "t.b" must appear in the GROUP BY clause or be used in an aggregate function'),
    ("SELECT a + 1, count(*) FROM t GROUP BY a + 2", "42803", 7,
     'column "t.a" must appear in the GROUP BY clause or be used in an aggregate function'),
    ("SELECT name FROM k GROUP BY ref", "42803", 7,
     'column "k.name" must appear in the GROUP BY clause or be used in an aggregate function'),
    ("SELECT a FROM t HAVING a > 1", "42803", 7,
     'column "t.a" must appear in the GROUP BY clause or be used in an aggregate function'),
    ("SELECT b, (SELECT count(*) FROM u WHERE u.a = t.a) FROM t GROUP BY b", "42803", 46,
     'subquery uses ungrouped column "t.a" from outer query'),
    ("SELECT a FROM t WHERE count(*) > 1", "42803", 22,
     "aggregate functions are not allowed in WHERE"),
    ("SELECT a FROM t WHERE (SELECT sum(t.a)) > 1", "42803", 30,
     "aggregate functions are not allowed in WHERE"),
    ("SELECT sum(count(*)) FROM t", "42803", 11, "aggregate function calls cannot be nested"),
    ("SELECT count(*) FROM t GROUP BY 1", "42803", 7,
     "aggregate functions are not allowed in GROUP BY"),
    ("SELECT a FROM t JOIN u ON count(*) > 1", "42803", 26,
     "aggregate functions are not allowed in JOIN conditions"),
    ("SELECT a FROM t GROUP BY 5", "42P10", 25, "GROUP BY position 5 is not in select list"),
    ("SELECT a FROM t GROUP BY 'x'", "42601", 25, "non-integer constant in GROUP BY"),
    ("SELECT a AS x, g AS x FROM t GROUP BY x", "42702", 38, 'GROUP BY "x" is ambiguous'),
    ("SELECT GROUPING(b) FROM t GROUP BY a", "42803", 16,
     "arguments to GROUPING must be grouping expressions of the associated query level"),
    ("SELECT count() FROM t", "42809", 7,
     "count(*) must be used to call a parameterless aggregate function"),
    # windows
    ("SELECT a FROM t WHERE row_number() OVER () > 1", "42P20", 22,
     "window functions are not allowed in WHERE"),
    ("SELECT sum(row_number() OVER ()) FROM t", "42803", 11,
     "aggregate function calls cannot contain window function calls"),
    ("SELECT row_number() OVER (ORDER BY row_number() OVER ()) FROM t", "42P20", 35,
     "window functions are not allowed in window definitions"),
    ("SELECT row_number() FROM t", "42809", 7, "window function row_number requires an OVER clause"),
    ("SELECT lower(b) OVER () FROM t", "42809", 7,
     "OVER specified, but lower is not a window function nor an aggregate function"),
    ("SELECT sum(a) OVER w FROM t", "42704", 19, 'window "w" does not exist'),
    ("SELECT sum(a) OVER (w ORDER BY a) FROM t WINDOW w AS (ORDER BY a)", "42P20", 7,
     'cannot override ORDER BY clause of window "w"'),
    ("SELECT 1 FROM t WINDOW w AS (ORDER BY a), w AS (ORDER BY b)", "42P20", 42,
     'window "w" is already defined'),
    ("SELECT sum(a) OVER (ORDER BY a, b RANGE 1 PRECEDING) FROM t", "42P20", 34,
     "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column"),
    ("SELECT sum(a) OVER (ORDER BY a ROWS a PRECEDING) FROM t", "42P10", 36,
     "argument of ROWS must not contain variables"),
    ("SELECT sum(a) OVER (ROWS -1 PRECEDING) FROM t", "22013", 7,
     "frame starting offset must not be negative"),
    # order, distinct, limit
    ("SELECT a FROM t ORDER BY 5", "42P10", 25, "ORDER BY position 5 is not in select list"),
    ("SELECT a FROM t ORDER BY 'x'", "42601", 25, "non-integer constant in ORDER BY"),
    ("SELECT a AS x, b AS x FROM t ORDER BY x", "42702", 38, 'ORDER BY "x" is ambiguous'),
    ("SELECT DISTINCT a FROM t ORDER BY b", "42P10", 34,
     "for SELECT DISTINCT, ORDER BY expressions must appear in select list"),
    ("SELECT DISTINCT ON (a) a, b FROM t ORDER BY b", "42P10", 20,
     "SELECT DISTINCT ON expressions must match initial ORDER BY expressions"),
    ("SELECT a FROM t LIMIT -1", "2201W", 22, "LIMIT must not be negative"),
    ("SELECT a FROM t OFFSET -1", "2201X", 23, "OFFSET must not be negative"),
    ("SELECT a FROM t LIMIT a", "42P10", 22, "argument of LIMIT must not contain variables"),
    ("SELECT a FROM t FETCH FIRST 1 ROW WITH TIES", "42601", None,
     "WITH TIES cannot be specified without ORDER BY clause"),
    # set operations, VALUES, WITH
    ("SELECT a FROM t UNION SELECT a, b FROM t", "42601", 29,
     "each UNION query must have the same number of columns"),
    ("SELECT a FROM t UNION SELECT b FROM t", "42804", 29,
     "UNION types integer and text cannot be matched"),
    ("SELECT a FROM t UNION SELECT a FROM u ORDER BY a + 1", "0A000", 47,
     "invalid UNION/INTERSECT/EXCEPT ORDER BY clause"),
    ("SELECT a FROM t UNION SELECT a FROM u ORDER BY b", "42703", 47, 'column "b" does not exist'),
    ("VALUES (1, 2), (3)", "42601", 16, "VALUES lists must all be the same length"),
    ("WITH x AS (SELECT 1), x AS (SELECT 2) SELECT * FROM x", "42712", 22,
     'WITH query name "x" specified more than once'),
    ("WITH x(a, b) AS (SELECT 1) SELECT * FROM x", "42P10", 5,
     'WITH query "x" has 1 columns available but 2 columns specified'),
    ("SELECT * FROM (SELECT 1) AS q(a, b)", "42P10", 28,
     'table "q" has 1 columns available but 2 columns specified'),
    ("WITH RECURSIVE r AS (SELECT n FROM r UNION ALL SELECT 1) SELECT * FROM r", "42P19", 35,
     'recursive reference to query "r" must not appear within its non-recursive term'),
    ("WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r, r s) SELECT * FROM r",
     "42P19", 66, 'recursive reference to query "r" must not appear more than once'),
    ("WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT count(*) FROM r) SELECT * FROM r",
     "42P19", 66, "aggregate functions are not allowed in a recursive query's recursive term"),
    ("WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1.5 FROM r) SELECT * FROM r",
     "42804", 28, 'recursive query "r" column 1 has type integer in non-recursive term but type '
     "numeric overall"),
    # subqueries
    ("SELECT (SELECT a, b FROM t)", "42601", 7, "subquery must return only one column"),
    ("SELECT a IN (SELECT a, b FROM t) FROM t", "42601", 9, "subquery has too many columns"),
    ("SELECT (a, b) IN (SELECT a FROM t) FROM t", "42601", 14, "subquery has too few columns"),
    ("SELECT (a, b) = (1, 2, 3) FROM t", "42601", 14,
     "unequal number of entries in row expressions"),
    # booleans, functions
    ("SELECT a FROM t WHERE a + 1", "42804", 22,
     "argument of WHERE must be type boolean, not type integer"),
    ("SELECT a FROM t WHERE NOT a", "42804", 26, "argument of NOT must be type boolean, not type integer"),
    ("SELECT CASE WHEN a THEN 1 END FROM t", "42804", 17,
     "argument of CASE/WHEN must be type boolean, not type integer"),
    ("SELECT lower(*) FROM t", "42883", 7, "function lower() does not exist"),
    ("SELECT lower(DISTINCT b) FROM t", "42809", 7,
     "DISTINCT specified, but lower is not an aggregate function"),
    ("SELECT a FROM t WHERE unnest(ARRAY[1]) = 1", "0A000", 22,
     "set-returning functions are not allowed in WHERE"),
    ("SELECT CASE WHEN true THEN unnest(ARRAY[1]) END", "0A000", 27,
     "set-returning functions are not allowed in CASE"),
    ("SELECT sum(unnest(ARRAY[1,2]))", "0A000", 11,
     "aggregate function calls cannot contain set-returning function calls"),
    ("SELECT ARRAY[]", "42P18", 7, "cannot determine type of empty array"),
    ("SELECT a = ANY (g) FROM t", "42809", 9, "op ANY/ALL (array) requires array on right side"),
    # time windows
    ("SELECT * FROM TUMBLE(ev, nope, INTERVAL '1 minute')", "42703", 25,
     'column "nope" does not exist'),
    ("SELECT * FROM TUMBLE(t, b, INTERVAL '1 minute')", "42804", 24,
     'the time column of TUMBLE must be a date or timestamp, but "b" is text'),
    ("SELECT * FROM TUMBLE(ev, ts, INTERVAL '0 minutes')", "22023", 29,
     "the size of TUMBLE must be greater than zero"),
    ("SELECT * FROM HOP(ev, ts, INTERVAL '-1 minute', INTERVAL '1 hour')", "22023", 26,
     "the hop of HOP must be greater than zero"),
    ("SELECT * FROM TUMBLE(ev, ts, INTERVAL '1 month 2 days')", "22023", 29,
     "the size of TUMBLE mixes months with days or time"),
    ("SELECT * FROM HOP(ev, ts, INTERVAL '1 day', INTERVAL '1 month')", "22023", 26,
     "HOP mixes calendar months with exact units"),
    ("SELECT * FROM CUMULATE(ev, ts, INTERVAL '7 minutes', INTERVAL '1 hour')", "22023", 53,
     "the size of CUMULATE must be a multiple of its step"),
    ("SELECT * FROM TUMBLE(ev, ts, INTERVAL '1 day', tz => 'Mars/Olympus')", "22023", 53,
     'time zone "Mars/Olympus" not recognized'),
    ("SELECT * FROM t FOR SYSTEM_TIME AS OF 5", "0A000", 14,
     "FOR SYSTEM_TIME AS OF stands behind the right side of a join here"),
)  # fmt: skip


@pytest.mark.parametrize(("sql", "sqlstate", "position", "message"), ERRORS)
def test_wrong_query_gets_its_error(
    sql: str, sqlstate: str, position: int | None, message: str
) -> None:
    with pytest.raises(StreamSqlError) as caught:
        bind(sql)
    error = caught.value
    assert (error.sqlstate, error.position, error.message) == (sqlstate, position, message)


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("SELECT nme FROM k", 'Perhaps you meant to reference the column "k.name".'),
        ("SELECT k.id FROM k q", 'Perhaps you meant to reference the table alias "q".'),
        ('SELECT * FROM "T"', 'There is a relation "t"; a name in double quotes keeps its case.'),
        (
            "SELECT a FROM t JOIN u ON t.a = u.a",
            'Write "t.a" or "u.a" instead.',
        ),
        (
            "SELECT a FROM t, (SELECT t.a FROM u) q",
            "To reference that table, you must mark this subquery with LATERAL.",
        ),
    ],
)
def test_hint_names_the_way_round(sql: str, hint: str) -> None:
    with pytest.raises(StreamSqlError) as caught:
        bind(sql)
    assert caught.value.hint == hint


def test_far_names_get_no_nearest_column_hint() -> None:
    with pytest.raises(StreamSqlError) as caught:
        bind("SELECT zebra FROM k")
    assert caught.value.hint is None


def test_deep_expressions_are_refused_and_long_chains_are_not() -> None:
    chain = " OR ".join(f"a = {i}" for i in range(2000))
    assert bind(f"SELECT a FROM t WHERE {chain}").plan.schema.names == ("a",)
    union = " UNION ALL ".join(["SELECT a FROM t"] * 300)
    assert len(bind(union).plan.schema) == 1


@pytest.mark.parametrize("size", [1200, 3000])
def test_what_nests_too_deeply_is_an_error_of_the_statement(size: int) -> None:
    with pytest.raises(StreamSqlError) as caught:
        to_duckdb_sql(optimize(bind("SELECT " + " + ".join(["a"] * size) + " FROM t").plan), str)
    assert caught.value.sqlstate == "54001"
