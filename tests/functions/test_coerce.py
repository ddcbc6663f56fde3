"""Coercion, common types, literals."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal

import pyarrow as pa
import pytest

from streamsql.core import errors
from streamsql.core.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    JSONB,
    NUMERIC,
    SMALLINT,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UNKNOWN,
    VARCHAR,
    Kind,
    SqlType,
    array_of,
    map_of,
    numeric,
    struct_of,
)  # fmt: skip
from streamsql.functions.coerce import coerce, common_type
from streamsql.functions.evaluator import evaluate_constant
from streamsql.functions.expressions import Call, Cast, Literal, Parameter, column, literal
from streamsql.functions.literals import (
    freeze_now,
    from_arrow_scalar,
    number_literal,
    parse_literal,
    timestamptz_literal,
    to_arrow_scalar,
)
from streamsql.functions.resolve import resolve_call
from tests.functions.support import ONE_ROW, duckdb

VARCHAR_3 = SqlType(Kind.VARCHAR, length=3)


def unknown(text: str | None) -> Literal:
    return Literal(value=text, type=UNKNOWN, position=5)


def test_untyped_literal_is_read_by_the_target_s_input_function() -> None:
    assert coerce(unknown(" 12 "), INTEGER) == literal(12, INTEGER)
    assert coerce(unknown("off"), BOOLEAN) == literal(False, BOOLEAN)
    assert coerce(unknown("2020-01-05"), DATE).value == datetime.date(2020, 1, 5)  # type: ignore[attr-defined]
    assert coerce(unknown(None), JSONB) == literal(None, JSONB)


def test_bad_untyped_literal_keeps_its_position() -> None:
    with pytest.raises(errors.InvalidTextRepresentation) as raised:
        coerce(unknown("x"), INTEGER)
    assert raised.value.position == 5


def test_context_decides_what_is_allowed() -> None:
    big = column(0, BIGINT)
    with pytest.raises(errors.DatatypeMismatch):
        coerce(big, INTEGER)
    assert isinstance(coerce(big, INTEGER, "assignment"), Cast)
    with pytest.raises(errors.DatatypeMismatch):
        coerce(column(0, TEXT), INTEGER, "assignment")
    assert isinstance(coerce(column(0, TEXT), INTEGER, "explicit"), Cast)
    with pytest.raises(errors.CannotCoerce):
        coerce(column(0, BOOLEAN), DATE, "explicit")


def test_same_type_is_left_alone() -> None:
    expr = column(3, numeric(5, 2))
    assert coerce(expr, numeric(5, 2)) is expr


def test_constant_casts_are_folded() -> None:
    assert coerce(literal(5, INTEGER), BIGINT) == literal(5, BIGINT)
    assert coerce(literal(5, INTEGER), DOUBLE) == literal(5.0, DOUBLE)
    assert coerce(literal(Decimal("1.25"), numeric(3, 2)), numeric(5, 1)) == literal(
        Decimal("1.3"), numeric(5, 1)
    )
    assert coerce(literal((1, None), array_of(INTEGER)), array_of(BIGINT)) == literal(
        (1, None), array_of(BIGINT)
    )


def test_varchar_cuts_by_cast_and_refuses_by_assignment() -> None:
    assert coerce(unknown("abcd"), VARCHAR_3, "explicit") == literal("abc", VARCHAR_3)
    assert coerce(literal("ab   ", TEXT), VARCHAR_3, "assignment") == literal("ab ", VARCHAR_3)
    with pytest.raises(errors.StringTooLong):
        coerce(unknown("abcd"), VARCHAR_3, "assignment")
    assigned = coerce(column(0, TEXT), VARCHAR_3, "assignment")
    assert isinstance(assigned, Call) and assigned.function == "varchar_assign"


def test_parameter_takes_the_type_it_is_coerced_to() -> None:
    assert coerce(Parameter(index=2, type=UNKNOWN), DATE) == Parameter(index=2, type=DATE)


COMMON = [
    ([INTEGER, BIGINT], BIGINT), ([SMALLINT, INTEGER], INTEGER), ([BIGINT, NUMERIC], NUMERIC),
    ([INTEGER, DOUBLE], DOUBLE), ([UNKNOWN, INTEGER], INTEGER), ([UNKNOWN, UNKNOWN], TEXT),
    ([DATE, TIMESTAMP], TIMESTAMP), ([TIMESTAMP, TIMESTAMPTZ], TIMESTAMPTZ), ([VARCHAR, TEXT], TEXT),
    ([numeric(5, 2), numeric(7, 4)], numeric(7, 4)), ([INTEGER, numeric(5, 2)], numeric(12, 2)),
    ([numeric(5, 2), NUMERIC], NUMERIC), ([array_of(INTEGER), array_of(BIGINT)], array_of(BIGINT)),
]  # fmt: skip


@pytest.mark.parametrize(("types", "expected"), COMMON)
def test_common_type_follows_union_rules(types: list[SqlType], expected: SqlType) -> None:
    assert common_type(types) == expected


def test_types_without_a_common_one_are_named() -> None:
    with pytest.raises(
        errors.DatatypeMismatch, match="UNION types integer and text cannot be matched"
    ):
        common_type([INTEGER, TEXT])


NUMBERS = [
    ("7", INTEGER, 7), ("2147483648", BIGINT, 2**31), ("9223372036854775808", numeric(19, 0), 2**63),
    ("0.908", numeric(3, 3), Decimal("0.908")), ("1.50", numeric(3, 2), Decimal("1.50")),
    ("1e3", numeric(4, 0), Decimal(1000)), ("1e-2", numeric(2, 2), Decimal("0.01")),
    ("1e300", DOUBLE, 1e300), ("0x1F", INTEGER, 31), ("1_000", INTEGER, 1000), (".5", numeric(1, 1), Decimal("0.5")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "type_", "value"), NUMBERS)
def test_number_literal_is_typed_by_its_form(text: str, type_: SqlType, value: object) -> None:
    found = number_literal(text)
    assert (found.type, found.value) == (type_, value)


@pytest.mark.parametrize("text", ["1e309", "1e400", "1.5e-324000", "1e-330", "1_0e400"])
def test_number_literal_beyond_a_double_is_refused(text: str) -> None:
    with pytest.raises(errors.NumericValueOutOfRange, match="out of range for type double"):
        number_literal(text)
    assert number_literal("0e-400").value == 0 and number_literal("5e-324").value == 5e-324


VALUES = [
    ("t", BOOLEAN), ("-5", SMALLINT), ("1.5", DOUBLE), ("NaN", DOUBLE), ("-Infinity", DOUBLE),
    ("123.4500000000", NUMERIC), ("99999999999999999999.99", numeric(30, 2)), ("it's", TEXT),
    ("2020-02-29", DATE), ("infinity", DATE), ("0044-03-15 BC", DATE), ("23:59:59.5", TIME),
    ("2020-02-29 12:00:00.000001", TIMESTAMP), ("-infinity", TIMESTAMP),
    ("2020-02-29 12:00:00+05:30", TIMESTAMPTZ), ("20000-01-01", TIMESTAMP),
    ("1 year 2 mons -3 days 04:05:06.5", INTERVAL), ('{"a": [1, 2.50]}', JSONB),
    ("{1,NULL,3}", array_of(INTEGER)), ("{}", array_of(TEXT)), ("{{1},{2}}", array_of(array_of(BIGINT))),
    ('{"x": 1, "y": "z"}', struct_of((("x", INTEGER), ("y", TEXT)))), ('{"k": 7}', map_of(TEXT, BIGINT)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "type_"), VALUES)
def test_literal_survives_arrow_and_duckdb(text: str, type_: SqlType) -> None:
    made = parse_literal(text, type_)
    scalar = to_arrow_scalar(made)
    assert scalar.type == type_.arrow
    hash(made)
    back = from_arrow_scalar(scalar, type_)
    if not (isinstance(made.value, float) and math.isnan(made.value)):
        assert back == made
    column_ = duckdb(made, ONE_ROW)
    assert column_.type == type_.arrow
    assert column_.equals(pa.repeat(scalar, 1)) or math.isnan(column_[0].as_py())


def test_null_literal_of_every_kind_has_exact_type() -> None:
    for type_ in (BOOLEAN, NUMERIC, INTERVAL, JSONB, array_of(DATE), map_of(TEXT, INTEGER)):
        null = literal(None, type_)
        assert not to_arrow_scalar(null).is_valid
        assert duckdb(null, ONE_ROW).null_count == 1


def test_freeze_now_replaces_the_clock() -> None:
    frozen = freeze_now(resolve_call("now", []), 1_000_000)
    assert frozen == timestamptz_literal(1_000_000)
    assert evaluate_constant(frozen).as_py() == datetime.datetime(
        1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC
    )


def test_evaluate_constant_raises_the_error_of_the_expression() -> None:
    with pytest.raises(errors.DivisionByZero):
        evaluate_constant(resolve_call("/", [literal(1, INTEGER), literal(0, INTEGER)]))
