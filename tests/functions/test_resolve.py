"""Overload resolution: PostgreSQL's choice of function, coercions and errors."""

from __future__ import annotations

import pytest

from streamsql.core import errors
from streamsql.core.schema import Schema
from streamsql.core.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    JSONB,
    NUMERIC,
    REAL,
    SMALLINT,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    UNKNOWN,
    VARCHAR,
    array_of,
    numeric,
)
from streamsql.functions.definitions import Volatility
from streamsql.functions.expressions import (
    Call,
    Literal,
    Parameter,
    SortKey,
    column,
    literal,
)
from streamsql.functions.resolve import (
    can_fail,
    is_aggregate,
    is_ordered_set,
    is_set_returning,
    is_window,
    needs_guard,
    resolve_aggregate,
    resolve_call,
    resolve_set_returning,
    resolve_window,
    set_returning_schema,
    volatility,
)
from tests.functions.support import bind, error_of

SCHEMA = Schema.of(
    ("i", INTEGER), ("s", SMALLINT), ("l", BIGINT), ("n", NUMERIC), ("m", numeric(10, 2)),
    ("d", DOUBLE), ("r", REAL), ("t", TEXT), ("v", VARCHAR), ("p", BOOLEAN), ("day", DATE),
    ("ts", TIMESTAMP), ("tz", TIMESTAMPTZ), ("gap", INTERVAL), ("j", JSONB),
    ("xs", array_of(INTEGER)),
)  # fmt: skip

# result types as PostgreSQL reports them with pg_typeof
TYPES = [
    ("i + i", "integer"), ("i + l", "bigint"), ("s + s", "smallint"), ("s + i", "integer"),
    ("i + n", "numeric"), ("i + d", "double precision"), ("i + r", "double precision"),
    ("r + r", "real"), ("r + d", "double precision"), ("n + r", "double precision"),
    ("l * m", "numeric"), ("m * m", "numeric"), ("i / i", "integer"), ("m / i", "numeric"),
    ("i ^ i", "double precision"), ("n ^ i", "numeric"), ("i + '1'", "integer"),
    ("'1' + '1'", "!42725"), ("i || t", "text"), ("t || t", "text"), ("xs || 1", "integer[]"),
    ("day + 1", "date"), ("day - day", "integer"), ("day + gap", "timestamp without time zone"),
    ("ts - ts", "interval"), ("ts + gap", "timestamp without time zone"),
    ("tz - gap", "timestamp with time zone"), ("gap * 2", "interval"), ("sqrt(i)", "double precision"),
    ("sqrt(n)", "numeric"), ("round(d)", "double precision"), ("round(m, 1)", "numeric"),
    ("abs(s)", "smallint"), ("sign(m)", "numeric"), ("ceil(i)", "double precision"),
    ("length(v)", "integer"), ("lower(v)", "text"), ("position('a' in t)", "integer"),
    ("coalesce(i, l)", "bigint"), ("coalesce(i, 1.5)", "numeric"), ("greatest(i, d)", "double precision"),
    ("nullif(i, l)", "bigint"), ("case when p then i else m end", "numeric"),
    ("case when p then 'a' end", "text"), ("case when p then v else t end", "text"),
    ("extract(year from ts)", "numeric"), ("date_part('year', ts)", "double precision"),
    ("date_trunc('day', day)", "timestamp with time zone"), ("date_trunc('day', ts)", "timestamp without time zone"),
    ("j -> 'a'", "jsonb"), ("j ->> 'a'", "text"), ("j @> '{}'", "boolean"), ("array[i, l]", "bigint[]"),
    ("array[1, 2.5]", "numeric[]"), ("xs[1]", "integer"), ("xs[1:2]", "integer[]"), ("i in (1, 2)", "boolean"),
    ("to_char(day, 'YYYY')", "text"), ("now()", "timestamp with time zone"), ("current_date", "date"),
    ("i = m", "boolean"), ("day < tz", "boolean"), ("t = 'a'", "boolean"), ("i & 1", "integer"),
    ("lower(t) || 1.5", "text"), ("to_jsonb(i)", "jsonb"), ("string_to_array(t, ',')", "text[]"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "expected"), TYPES)
def test_result_type_is_postgresql_s(sql: str, expected: str) -> None:
    if expected.startswith("!"):
        assert error_of(sql, SCHEMA).sqlstate == expected[1:]
    else:
        found = bind(sql, SCHEMA).type
        assert str(found if found.kind.value != "numeric" else "numeric") == expected


ERRORS = [
    ("i + t", "42883", "operator does not exist: integer + text"),
    ("- t", "42883", "operator does not exist: - text"),
    ("foo(i, 'x')", "42883", "function foo(integer, unknown) does not exist"),
    ("lower(i)", "42883", "function lower(integer) does not exist"),
    ("i = p", "42883", "operator does not exist: integer = boolean"),
    ("i = 'x'", "22P02", 'invalid input syntax for type integer: "x"'),
    ("j = t", "42883", "operator does not exist: jsonb = text"),
    ("round(d, 2)", "42883", "function round(double precision, integer) does not exist"),
    ("i || l", "42883", "operator does not exist: integer || bigint"),
    ("p::date", "42846", "cannot cast type boolean to date"),
    ("array[1, 'x']", "22P02", 'invalid input syntax for type integer: "x"'),
    ("array[i, t]", "42804", "ARRAY types integer and text cannot be matched"),
    ("coalesce(i, p)", "42804", "COALESCE types integer and boolean cannot be matched"),
    ("case when p then i else t end", "42804", "CASE types text and integer cannot be matched"),
    ("read_csv('x')", "42883", "function read_csv(unknown) does not exist"),
    ("getvariable('x')", "42883", "function getvariable(unknown) does not exist"),
]


@pytest.mark.parametrize(("sql", "sqlstate", "message"), ERRORS)
def test_wrong_call_has_postgresql_s_message(sql: str, sqlstate: str, message: str) -> None:
    error = error_of(sql, SCHEMA)
    assert (error.sqlstate, error.message) == (sqlstate, message)


def test_undefined_function_has_position_and_hint() -> None:
    error = error_of("i + foo(i)", SCHEMA)
    assert error.position == 4
    assert error.hint is not None and "explicit type casts" in error.hint


def test_functions_only_duckdb_knows_are_typed_by_it() -> None:
    call = resolve_call("levenshtein", [literal("a", UNKNOWN), column(0, TEXT)])
    assert isinstance(call, Call)
    assert (call.function, call.type) == ("duckdb:levenshtein", BIGINT)
    assert volatility(call) is Volatility.IMMUTABLE


def test_untyped_parameter_takes_the_type_of_the_other_side() -> None:
    call = resolve_call("=", [column(0, BIGINT), Parameter(index=1, type=UNKNOWN)])
    assert isinstance(call, Call)
    assert call.args[1] == Parameter(index=1, type=BIGINT)


def test_integer_constant_beside_numeric_keeps_the_digits_few() -> None:
    call = resolve_call("*", [column(0, numeric(10, 2)), literal(7, INTEGER)])
    assert call.type.storage_precision_scale == (11, 2)


def test_bare_numeric_stays_bare_in_arithmetic() -> None:
    product = resolve_call("*", [column(0, NUMERIC), column(1, numeric(30, 4))])
    assert product.type.precision is None


def test_volatility_is_the_worst_of_the_tree() -> None:
    assert volatility(bind("i + 1", SCHEMA)) is Volatility.IMMUTABLE
    assert volatility(bind("tz < now()", SCHEMA)) is Volatility.STABLE
    assert volatility(bind("random() + d", SCHEMA)) is Volatility.VOLATILE


def test_can_fail_and_needs_guard_tell_overflow_from_the_rest() -> None:
    assert not can_fail(bind("i = 1 and t like t", SCHEMA).args[0])  # type: ignore[attr-defined]
    assert can_fail(bind("i + 1", SCHEMA)) and not needs_guard(bind("i + 1", SCHEMA))
    assert needs_guard(bind("i / l", SCHEMA)) and needs_guard(bind("t::int", SCHEMA))


AGGREGATES = [
    ("count", [TEXT], "bigint"), ("sum", [SMALLINT], "bigint"), ("sum", [INTEGER], "bigint"),
    ("sum", [BIGINT], "numeric"), ("sum", [numeric(10, 2)], "numeric"), ("sum", [REAL], "real"),
    ("sum", [DOUBLE], "double precision"), ("sum", [INTERVAL], "interval"), ("avg", [INTEGER], "numeric"),
    ("avg", [DOUBLE], "double precision"), ("avg", [REAL], "double precision"), ("min", [DATE], "date"),
    ("max", [VARCHAR], "text"), ("bool_or", [BOOLEAN], "boolean"), ("stddev", [INTEGER], "numeric"),
    ("variance", [DOUBLE], "double precision"), ("array_agg", [TEXT], "text[]"),
    ("string_agg", [TEXT, TEXT], "text"), ("jsonb_agg", [INTEGER], "jsonb"),
    ("jsonb_object_agg", [TEXT, INTEGER], "jsonb"), ("corr", [INTEGER, DOUBLE], "double precision"),
    ("bit_and", [BIGINT], "bigint"), ("any_value", [DATE], "date"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "types", "expected"), AGGREGATES)
def test_aggregate_type_is_postgresql_s(name: str, types: list, expected: str) -> None:  # type: ignore[type-arg]
    call = resolve_aggregate(name, [column(i, t) for i, t in enumerate(types)])
    found = (
        "numeric"
        if call.type.kind.value == "numeric"
        else str(call.type).replace("character varying", "text")
    )
    assert found == expected


def test_sum_of_bigint_prints_as_plain_numeric() -> None:
    type_ = resolve_aggregate("sum", [column(0, BIGINT)]).type
    assert (type_.storage_precision_scale, str(type_), type_.typmod) == ((38, 0), "numeric", -1)


def test_count_without_arguments_is_count_star() -> None:
    assert resolve_aggregate("count", []).function == "count_star"


def test_ordered_set_aggregate_takes_its_sort_key_as_argument() -> None:
    key = SortKey(expr=column(0, INTEGER))
    call = resolve_aggregate("percentile_cont", [literal("0.5", UNKNOWN)], order_by=[key])
    assert call.type == DOUBLE and call.order_by[0].expr.type == DOUBLE
    assert call.args == (Literal(value=0.5, type=DOUBLE),)
    with pytest.raises(errors.WrongObjectType):
        resolve_aggregate("mode", [])


def test_filter_must_be_boolean() -> None:
    with pytest.raises(errors.DatatypeMismatch, match="argument of FILTER must be type boolean"):
        resolve_aggregate("count", [], filter=column(0, INTEGER))


def test_distinct_aggregate_sorts_only_by_its_argument() -> None:
    with pytest.raises(errors.InvalidColumnReference):
        resolve_aggregate(
            "array_agg", [column(0, TEXT)], distinct=True, order_by=[SortKey(expr=column(1, TEXT))]
        )


def test_kinds_of_functions_are_told_apart() -> None:
    assert is_aggregate("sum") and is_aggregate("list") and not is_aggregate("lower")
    assert is_window("row_number") and not is_window("sum")
    assert is_set_returning("unnest") and not is_set_returning("lower")
    assert is_ordered_set("mode") and not is_ordered_set("max")


def test_window_function_types_and_refusals() -> None:
    call = resolve_window("lag", [column(0, INTEGER), literal(1, INTEGER), literal("0", UNKNOWN)])
    assert call.type == INTEGER and call.args[2] == literal(0, INTEGER)
    assert resolve_window("sum", [column(0, BIGINT)]).type.storage_precision_scale == (38, 0)
    with pytest.raises(errors.FeatureNotSupported):
        resolve_window("sum", [column(0, BIGINT)], distinct=True)
    with pytest.raises(errors.UndefinedFunction):
        resolve_window("ntile", [column(0, TEXT)])


def test_set_returning_schemas() -> None:
    assert set_returning_schema("unnest", [column(0, array_of(array_of(TEXT)))]).types == (TEXT,)
    assert set_returning_schema("jsonb_each_text", [column(0, JSONB)]).names == ("key", "value")
    name, args, schema = resolve_set_returning(
        "generate_series", [literal(1, INTEGER), column(0, BIGINT)]
    )
    assert (name, schema.types) == ("generate_series", (BIGINT,))
    assert args[0].type == BIGINT
