"""Output column names, types, origins and relations, as PostgreSQL chooses them."""

from __future__ import annotations

import pytest

from streamsql.core.schema import Schema
from streamsql.core.types import BIGINT, INTEGER, NUMERIC, TEXT
from streamsql.dialect import parse, parse_expression
from streamsql.functions.expressions import Literal
from streamsql.plan.binder import RelationInfo, bind_expression, bind_insert_source, bind_predicate
from streamsql.plan.nodes import Values
from tests.plan.support import BY_NAME, bind, context, resolve, tables

NAMES = (
    ("SELECT count(*), sum(a), a FROM t GROUP BY a", ["count", "sum", "a"]),
    ("SELECT (a), -a, a + 1, a::text, '1'::int, 1::text, 'x' FROM t",
     ["a", "?column?", "?column?", "a", "int4", "text", "?column?"]),
    ("SELECT CASE WHEN a > 1 THEN b END, CASE WHEN a > 1 THEN 1 ELSE a END FROM t", ["case", "a"]),
    ("SELECT coalesce(a, 1), nullif(a, 1), greatest(a, g) FROM t",
     ["coalesce", "nullif", "greatest"]),
    ("SELECT EXISTS (SELECT 1), ARRAY(SELECT a FROM t), (SELECT max(a) FROM t), (SELECT 1 AS q)",
     ["exists", "array", "max", "q"]),
    ("SELECT a IS NULL, NOT ok, a = 1, a IN (1, 2) FROM l", ["?column?"] * 4),
    ("SELECT lower(b), row_number() OVER (), true, NULL FROM t",
     ["lower", "row_number", "?column?", "?column?"]),
    ('SELECT 1 AS "A b", 2 AS a, 3 b', ["A b", "a", "b"]),
    ("VALUES (1, 'x')", ["column1", "column2"]),
    ("SELECT * FROM t x JOIN u y USING (a)", ["a", "b", "v", "g", "c", "b"]),
    ("SELECT x.*, y.* FROM t x JOIN u y USING (a)", ["a", "b", "v", "g", "a", "c", "b"]),
    ("SELECT * FROM generate_series(1, 3) WITH ORDINALITY", ["generate_series", "ordinality"]),
    ("SELECT * FROM generate_series(1, 3) AS g", ["g"]),
    ("SELECT unnest(xs) FROM l", ["unnest"]),
    ("SELECT * FROM TUMBLE(ev, ts, INTERVAL '1 day')",
     ["ts", "g", "x", "window_start", "window_end", "window_time"]),
    ("SELECT * FROM TUMBLE(z, d, INTERVAL '1 day')",
     ["tz", "d", "x", "window_start", "window_end", "window_time"]),
    ("SELECT a FROM t UNION SELECT c AS q FROM u", ["a"]),
    ("WITH q(x) AS (SELECT a, b FROM t) SELECT * FROM q", ["x", "b"]),
)  # fmt: skip


@pytest.mark.parametrize(("sql", "names"), NAMES)
def test_output_names(sql: str, names: list[str]) -> None:
    assert list(bind(sql).plan.schema.names) == names


def test_quoted_names_are_two_names_and_reach_duckdb_as_positions() -> None:
    tables().fill({"Quoted": [(1, 2)]})
    assert tables().query('SELECT "Col", col FROM "Quoted"') == [(1, 2)]
    assert tables().query('SELECT 3 AS "Col", 4 AS col') == [(3, 4)]


def test_unknown_literals_take_the_type_of_their_surroundings() -> None:
    assert bind("SELECT NULL UNION SELECT 1").plan.schema.types == (INTEGER,)
    assert bind("SELECT 'x', NULL").plan.schema.types == (TEXT, TEXT)
    assert bind("SELECT 1 UNION ALL SELECT 2.5").plan.schema[0].type.kind is NUMERIC.kind
    assert bind("SELECT CASE WHEN true THEN 1 ELSE '2' END").plan.schema.types == (INTEGER,)
    assert bind("SELECT a FROM t WHERE b = 'x' AND a = '1'").plan.schema.types == (INTEGER,)


def test_origins_name_the_table_column_of_plain_columns_only() -> None:
    bound = bind("SELECT t.a, u.c, t.a + 1, b AS x FROM t JOIN u USING (b, a)")
    assert bound.origins == ((1, 0), (2, 1), None, (1, 1))
    assert bound.relations == {1, 2}
    assert bind("SELECT q.a FROM (SELECT a FROM t) q").origins == ((1, 0),)


# --- views --------------------------------------------------------------------------------------
def with_view(query: str, *columns: tuple[str, object]) -> object:
    schema = Schema.of(*columns)  # type: ignore[arg-type]
    view = RelationInfo(50, "w", "public", schema, kind="view", view_query=parse(query)[0].query)
    return lambda name: view if name[-1] == "w" else resolve(name)


def test_plain_view_is_expanded_under_its_own_column_names() -> None:
    tables().fill({"t": [(1, "x", None, 2)]})
    find = with_view("SELECT a, g FROM t", ("one", INTEGER), ("two", INTEGER))
    bound = bind("SELECT two, w.one FROM w WHERE one = 1", resolve=find)
    assert tables().rows(bound.plan) == [(2, 1)]
    assert bound.relations == {1, 50}
    assert bound.origins == ((50, 1), (50, 0))


def test_view_does_not_see_the_ctes_of_its_reader() -> None:
    tables().fill({"t": [(1, "x", None, 2)]})
    find = with_view("SELECT a FROM t", ("a", INTEGER))
    bound = bind("WITH t AS (SELECT 9 AS a) SELECT w.a, t.a FROM w, t", resolve=find)
    assert tables().rows(bound.plan) == [(1, 9)]


# --- single expressions, INSERT -----------------------------------------------------------------
def test_expression_over_one_row() -> None:
    schema = BY_NAME["t"].schema
    expr = bind_expression(parse_expression("t.a + g"), schema, context(), "t", target=BIGINT)
    assert expr.type == BIGINT
    predicate = bind_predicate(
        parse_expression("excluded.a > t.a"),
        schema,
        context(),
        "t",
        extra=[("excluded", schema)],
    )
    assert {c.index for c in predicate.children()} == {0, 4}  # type: ignore[attr-defined]


def insert(sql: str, names: str, **options: object) -> object:
    table = BY_NAME["t"].schema
    columns = [table[table.index(n)] for n in names.split()]
    return bind_insert_source(parse(sql)[0].query, columns, context(), **options)  # type: ignore[arg-type]


def test_insert_values_take_the_column_types_and_defaults() -> None:
    bound = insert(
        "VALUES ('1', NULL), (DEFAULT, 5)", "a v", defaults=[Literal(value=7, type=INTEGER), None]
    )
    plan = bound.plan  # type: ignore[attr-defined]
    assert isinstance(plan, Values)
    assert [row[0].value for row in plan.rows] == [1, 7]  # type: ignore[attr-defined]
    assert plan.schema.types == BY_NAME["t"].schema.select([0, 2]).types


def test_insert_of_a_query_is_assigned_column_by_column() -> None:
    tables().fill({"u": [(1, 30, "x")]})
    bound = insert("SELECT c, b FROM u", "a b")
    assert tables().rows(bound.plan) == [(30, "x")]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("sql", "names", "message"),
    [
        ("VALUES (1, 2, 3)", "a g", "INSERT has more expressions than target columns"),
        ("VALUES (1)", "a g", "INSERT has more target columns than expressions"),
        ("SELECT 1", "a g", "INSERT has more target columns than expressions"),
        ("VALUES (true)", "a", 'column "a" is of type integer but expression is of type boolean'),
        ("SELECT b FROM t", "a", 'column "a" is of type integer but expression is of type text'),
    ],
)
def test_insert_source_that_does_not_fit(sql: str, names: str, message: str) -> None:
    with pytest.raises(Exception, match=message.replace("(", r"\(")):
        insert(sql, names)
