"""Expressions: precedence, forms, shapes of the tree."""

from __future__ import annotations

from typing import Any

import pytest
from sqlglot import exp

from streamsql.core.errors import SqlSyntaxError
from streamsql.dialect import interval_parts, operator_of, parse_expression, position_of, to_sql
from streamsql.dialect.nodes import ArrayQuery, MapValue, PrefixOperator, RowValue


def shape(node: Any) -> str:
    """The tree as a fully parenthesised text: what binds how."""
    if isinstance(node, exp.Paren):
        return shape(node.this)
    name = operator_of(node)
    if isinstance(node, (exp.Neg, exp.BitwiseNot, PrefixOperator)):
        return f"({name} {shape(node.this)})"
    if name is not None:
        return f"({shape(node.this)} {name} {shape(node.expression)})"
    if isinstance(node, (exp.And, exp.Or)):
        word = "and" if isinstance(node, exp.And) else "or"
        return f"({shape(node.this)} {word} {shape(node.expression)})"
    if isinstance(node, exp.Not):
        return f"(not {shape(node.this)})"
    if isinstance(node, exp.Is):
        return f"({shape(node.this)} is {shape(node.expression)})"
    if isinstance(node, exp.Between):
        return (
            f"({shape(node.this)} between {shape(node.args['low'])} and {shape(node.args['high'])})"
        )
    if isinstance(node, exp.In):
        return f"({shape(node.this)} in [{', '.join(map(shape, node.expressions))}])"
    if isinstance(node, exp.Cast):
        return f"{shape(node.this)}::{node.to.this.value.lower()}"
    if isinstance(node, exp.AtTimeZone):
        return f"({shape(node.this)} at {shape(node.args['zone'])})"
    if isinstance(node, exp.Anonymous):
        return f"{node.name}({', '.join(map(shape, node.expressions))})"
    if isinstance(node, exp.Column):
        return node.name
    if isinstance(node, exp.Literal):
        return f"'{node.name}'" if node.is_string else node.name
    if isinstance(node, exp.Null):
        return "null"
    if isinstance(node, exp.Boolean):
        return str(node.this).lower()
    if isinstance(node, exp.Bracket):
        return f"{shape(node.this)}[{shape(node.expressions[0])}]"
    return type(node).__name__


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", "(1 + (2 * 3))"),
        ("1 - 2 - 3", "((1 - 2) - 3)"),
        ("1 + 2 || 'x'", "((1 + 2) || 'x')"),
        ("a || b = c", "((a || b) = c)"),
        ("a = b and c or d", "(((a = b) and c) or d)"),
        ("a or b and c", "(a or (b and c))"),
        ("not a and b", "((not a) and b)"),
        ("not a = b", "(not (a = b))"),
        ("not not a", "(not (not a))"),
        ("-2 ^ 2", "((- 2) ^ 2)"),
        ("2 ^ 3 ^ 2", "((2 ^ 3) ^ 2)"),
        ("-a::int", "(- a::int)"),
        ("- - 1", "(- (- 1))"),
        ("a + -b", "(a + (- b))"),
        ("a -> 'b' ->> 'c'", "((a -> 'b') ->> 'c')"),
        ("a -> 'b' || 'c'", "((a -> 'b') || 'c')"),
        ("a ->> 'x' = 'y'", "((a ->> 'x') = 'y')"),
        ("a + b -> c", "((a + b) -> c)"),
        ("a & b | c", "((a & b) | c)"),
        ("a << 1 + 2", "(a << (1 + 2))"),
        ("a between b and c and d", "((a between b and c) and d)"),
        ("a between b + 1 and c * 2", "(a between (b + 1) and (c * 2))"),
        ("a not between 1 and 2", "(not (a between 1 and 2))"),
        ("a in (1, 2) = true", "((a in [1, 2]) = true)"),
        ("a not in (1)", "(not (a in [1]))"),
        ("a like 'x' || 'y'", "(a ~~ ('x' || 'y'))"),
        ("a not ilike b and c", "((not (a ~~* b)) and c)"),
        ("a is null = false", "((a is null) = false)"),
        ("a = b is null", "((a = b) is null)"),
        ("a is not null", "(not (a is null))"),
        ("a isnull or b notnull", "((a is null) or (not (b is null)))"),
        ("a is not true", "(not (a is true))"),
        ("a < b is unknown", "((a < b) is null)"),
        ("a at time zone 'x' + b", "((a at 'x') + b)"),
        ("a at time zone 'x' at time zone 'y'", "((a at 'x') at 'y')"),
        ("~a & b", "((~ a) & b)"),
        ("@ a + b", "(@ (a + b))"),
        ("a ~ b and c !~* d", "((a ~ b) and (c !~* d))"),
        ("a operator(pg_catalog.~) '^(x)$'", "(a ~ '^(x)$')"),
        ("a operator(pg_catalog.+) b = c", "((a + b) = c)"),
        ("a <@ b", "(a <@ b)"),
        ("a ? 'k'", "(a ? 'k')"),
        ("a ?| b", "(a ?| b)"),
        ("a @> b and a && c", "((a @> b) and (a && c))"),
        ("a #>> '{x}'", "(a #>> '{x}')"),
        ("x::int[1]", "x::array"),
        ("(x::int[])[1]", "x::array[1]"),
        ("a % 2 = 0", "((a % 2) = 0)"),
        ("a <> b", "(a <> b)"),
        ("a != b", "(a <> b)"),
        ("a ~~ 'x'", "(a ~~ 'x')"),
        ("a !~~* 'x'", "(not (a ~~* 'x'))"),
        ("extract(year from a)", "extract('year', a)"),
        ("substring(a from 2 for 3)", "substring(a, 2, 3)"),
        ("substring(a for 3)", "substring(a, 1, 3)"),
        ("substring(a, 2)", "substring(a, 2)"),
        ("position('b' in a)", "position(a, 'b')"),
        ("trim(a)", "btrim(a)"),
        ("trim(leading 'x' from a)", "ltrim(a, 'x')"),
        ("trim(trailing from a)", "rtrim(a)"),
        ("overlay(a placing b from 1 for 2)", "overlay(a, b, 1, 2)"),
        ("pg_catalog.lower(A)", "lower(a)"),
        ('"Lower"(a)', "Lower(a)"),
        ("current_date", "current_date()"),
        ("current_timestamp(3)", "current_timestamp(3)"),
        ("coalesce(a, b)", "coalesce(a, b)"),
        ("left(a, 1)", "left(a, 1)"),
        ("date '2024-01-01'", "'2024-01-01'::date"),
        ("timestamp with time zone 'x'", "'x'::timestamptz"),
        ("timestamp '2024-01-01' + b", "('2024-01-01'::timestamp + b)"),
        ("double precision '1'", "'1'::double"),
        ("cast(a as numeric(3, 1))", "a::decimal"),
        ("0x1F", "31"),
        ("1_000", "1000"),
        ("count(*)", "count(Star)"),
        ("timestampdiff(second, a, b)", "timestampdiff('second', a, b)"),
    ],
)  # fmt: skip
def test_expression_binds_as_in_postgresql(text: str, expected: str) -> None:
    assert shape(parse_expression(text)) == expected


@pytest.mark.parametrize(
    "text",
    ["a < b < c", "a = b = c", "a between 1 and 2 between 3 and 4", "a like b like c", "a in (1) in (2)",
     "1 +", "(1", "1)", "a b", "f(", "case when a then", "case end", "a is 5", "array[1", "* 2", "a..b",
     "not", "in (1)", "cast(a int)", "extract(year a)", "a at time 'x'", "'a' 'b'", "select", "f(a,)", "in"],
)  # fmt: skip
def test_expression_that_is_none_raises_syntax_error_with_position(text: str) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse_expression(text)
    assert caught.value.sqlstate == "42601"
    assert caught.value.position is not None


def test_expression_any_takes_arrays_and_queries() -> None:
    array = parse_expression("a = any($1)")
    assert isinstance(array, exp.EQ)
    assert isinstance(array.expression, exp.Any)
    assert isinstance(array.expression.this, exp.Parameter)
    query = parse_expression("a <> all (select 1)")
    assert isinstance(query.expression, exp.All)
    assert isinstance(query.expression.this, exp.Subquery)
    some = parse_expression("a like some (array['x'])")
    assert isinstance(some.expression, exp.Any)


def test_expression_aggregate_wrappers_nest_inside_out() -> None:
    node = parse_expression(
        "sum(distinct a order by b desc) filter (where c) over (partition by d order by e"
        " rows between 1 preceding and unbounded following exclude ties)"
    )
    assert isinstance(node, exp.Window)
    assert [k.name for k in node.args["partition_by"]] == ["d"]
    spec = node.args["spec"]
    assert spec.args["kind"] == "ROWS"
    assert (spec.args["start"].name, spec.args["start_side"]) == ("1", "PRECEDING")
    assert (spec.args["end"], spec.args["end_side"]) == ("UNBOUNDED", "FOLLOWING")
    assert spec.args["exclude"].name == "TIES"
    filtered = node.this
    assert isinstance(filtered, exp.Filter)
    distinct = filtered.this.expressions[0]
    assert isinstance(distinct, exp.Distinct)
    order = distinct.expressions[-1]
    assert isinstance(order, exp.Order)
    assert order.this.name == "a"
    assert order.expressions[0].args["desc"] is True
    assert order.expressions[0].args["nulls_first"] is True


def test_expression_within_group_and_ignore_nulls() -> None:
    node = parse_expression("percentile_cont(0.5) within group (order by x)")
    assert isinstance(node, exp.WithinGroup)
    for text in ("first_value(x) ignore nulls over w", "first_value(x ignore nulls) over w"):
        window = parse_expression(text)
        assert isinstance(window, exp.Window)
        assert window.args["alias"].name == "w"
        assert isinstance(window.this, exp.IgnoreNulls)
        assert window.this.this.expressions[0].name == "x"


def test_expression_rows_arrays_structs_maps() -> None:
    assert isinstance(parse_expression("row(1)"), RowValue)
    assert isinstance(parse_expression("(1, 2)"), exp.Tuple)
    assert len(parse_expression("array[[1, 2], [3, 4]]").expressions) == 2
    assert isinstance(parse_expression("array(select 1)"), ArrayQuery)
    assert parse_expression("array[]::int[]").this.expressions == []
    struct = parse_expression("struct(1 as a, b)")
    assert struct.expressions[0].this.name == "a"
    for text in ("map {'a': 1}", "map['a', 1]", "map['a' => 1]", "map('a' := 1)"):
        node = parse_expression(text)
        assert isinstance(node, MapValue), text
        assert [v.name for v in node.args["values"]] == ["1"]


def test_expression_columns_keep_exact_names() -> None:
    node = parse_expression('Db."Sch".Tbl."Col"')
    assert [p.name for p in node.parts] == ["db", "Sch", "tbl", "Col"]
    star = parse_expression("t.*")
    assert isinstance(star.this, exp.Star)
    assert star.table == "t"
    field = parse_expression("(a.b).c")
    assert isinstance(field, exp.Dot)


@pytest.mark.parametrize("text", ["name", "type", "value", "key", "timestamp", "date", "source", "index",
                                  "row", "values", "interval", "first", "session", "emit", "tumble", "map"])  # fmt: skip
def test_expression_unreserved_words_are_column_names(text: str) -> None:
    node = parse_expression(text)
    assert isinstance(node, exp.Column)
    assert node.name == text


@pytest.mark.parametrize(
    "text", ["select", "from", "where", "user_", "left", "join", "and", "table"]
)
def test_expression_reserved_words_are_not(text: str) -> None:
    if text == "user_":
        assert parse_expression(text).name == "user_"
        return
    with pytest.raises(SqlSyntaxError):
        parse_expression(text)


def test_expression_positions_point_at_the_text() -> None:
    text = "alpha + lower(beta) || 'x'"
    node = parse_expression(text)
    assert position_of(node) == text.index("||")
    call = node.find(exp.Anonymous)
    assert position_of(call) == text.index("lower")
    column = next(c for c in node.find_all(exp.Column) if c.name == "beta")
    assert position_of(column) == text.index("beta")
    assert position_of(column.this) == text.index("beta")


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [("interval '1' minute", "1", "MINUTE"), ("interval '1 minute'", "1 minute", None),
     ("interval 5 minutes", "5", "MINUTE"), ("interval -'1' day", "-1", "DAY")],
)  # fmt: skip
def test_expression_interval_literals(text: str, value: str, unit: str | None) -> None:
    node = parse_expression(text)
    assert isinstance(node, exp.Interval)
    assert node.this.name == value
    given = node.args.get("unit")
    assert (given.name if given is not None else None) == unit


def test_expression_interval_with_digits_is_a_cast() -> None:
    node = parse_expression("interval(3) '1 s'")
    assert isinstance(node, exp.Cast)
    assert isinstance(node.this, exp.Interval)
    assert to_sql(node) == "CAST(INTERVAL '1 s' AS INTERVAL(3))"
    assert to_sql(parse_expression(to_sql(node))) == to_sql(node)


@pytest.mark.parametrize(
    ("text", "written", "us"),
    [
        ("interval '1.2345 s' second(2)", "INTERVAL '1.2345 s' SECOND(2)", 1_230_000),
        ("interval '-1.25' second(1)", "INTERVAL '-1.25' SECOND(1)", -1_300_000),
        ("interval '1.5' second (0)", "INTERVAL '1.5' SECOND(0)", 2_000_000),
        ("interval '1.2345678' seconds(9)", "INTERVAL '1.2345678' SECOND(6)", 1_234_568),
        ("interval '1:02.35' minute to second(1)", "INTERVAL '1:02.35' MINUTE TO SECOND(1)", 62_400_000),
        ("interval '1.2345' second", "INTERVAL '1.2345' SECOND", 1_234_500),
    ],
)  # fmt: skip
def test_expression_interval_keeps_the_digits_of_its_seconds(
    text: str, written: str, us: int
) -> None:
    node = parse_expression(text)
    assert isinstance(node, exp.Interval)
    assert interval_parts(node) == (0, 0, us)
    assert to_sql(node) == written
    assert interval_parts(parse_expression(written)) == (0, 0, us)


def test_expression_interval_span() -> None:
    node = parse_expression("interval '1:30' hour to minute")
    assert isinstance(node.args["unit"], exp.IntervalSpan)


def test_expression_deep_nesting_is_no_crash() -> None:
    from streamsql.core.errors import StatementTooComplex
    from streamsql.dialect import parse

    with pytest.raises(StatementTooComplex):
        parse("select " + "(" * 5000 + "1" + ")" * 5000)
    chain = parse("select " + " + ".join(["1"] * 3000))
    assert len(chain) == 1
