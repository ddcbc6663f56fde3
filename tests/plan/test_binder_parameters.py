"""Parameters: inference, conflicts, where none are allowed; volatile functions in views."""

from __future__ import annotations

import pytest

from streamsql.core.errors import StreamSqlError
from streamsql.core.types import BIGINT, INTEGER, TEXT, array_of, numeric
from streamsql.functions.expressions import Parameter, walk
from streamsql.plan.visit import node_expressions, walk_plan
from tests.plan.support import bind

INFERENCE = (
    ("SELECT a FROM t WHERE a = $1", (INTEGER,)),
    ("SELECT a FROM t WHERE $1 = a AND b = $2", (INTEGER, TEXT)),
    ("SELECT a FROM t WHERE a IN ($1, $2)", (INTEGER, INTEGER)),
    ("SELECT a FROM t WHERE a BETWEEN $1 AND $2", (INTEGER, INTEGER)),
    ("SELECT a FROM t WHERE a = ANY($1)", (array_of(INTEGER),)),
    ("SELECT a FROM t LIMIT $1 OFFSET $2", (BIGINT, BIGINT)),
    ("SELECT $1", (TEXT,)),
    ("SELECT $1::int, $1", (INTEGER,)),
    ("SELECT $2, $1 + a FROM t", (INTEGER, TEXT)),
    ("SELECT CASE WHEN a = 1 THEN $1 ELSE a END FROM t", (INTEGER,)),
    ("SELECT a FROM t UNION SELECT $1", (INTEGER,)),
    ("SELECT (SELECT max(a) FROM u WHERE c > $1)", (BIGINT,)),
    ("SELECT a FROM t WHERE (a, b) IN (($1, $2))", (INTEGER, TEXT)),
    ("SELECT a FROM t WHERE a IN (SELECT $1)", (INTEGER,)),
)


@pytest.mark.parametrize(("sql", "types"), INFERENCE)
def test_first_use_that_needs_a_type_decides(sql: str, types: tuple[object, ...]) -> None:
    bound = bind(sql)
    assert bound.parameter_types == types
    for node in walk_plan(bound.plan):
        for expr in node_expressions(node):
            for e in walk(expr):
                if isinstance(e, Parameter):
                    assert e.type == types[e.index - 1]


def test_declared_types_win() -> None:
    bound = bind("SELECT $1, a FROM t WHERE a = $2", parameter_types=[numeric(5, 2), BIGINT])
    assert bound.plan.schema[0].type == numeric(5, 2)
    assert bound.parameter_types == (numeric(5, 2), BIGINT)


def test_two_types_for_one_parameter_are_an_error() -> None:
    with pytest.raises(StreamSqlError) as caught:
        bind("SELECT $1::int, $1::text FROM t WHERE b = $1 AND ts = $1")
    assert caught.value.sqlstate in ("42P08", "42703", "42883")


@pytest.mark.parametrize("sql", ["SELECT $1", "SELECT a FROM t WHERE a = $1"])
def test_parameters_can_be_forbidden(sql: str) -> None:
    with pytest.raises(StreamSqlError) as caught:
        bind(sql, parameter_types=None)
    assert (caught.value.sqlstate, caught.value.message) == ("42P02", "there is no parameter $1")


def test_volatile_functions_are_refused_where_rows_must_follow_from_the_input() -> None:
    assert bind("SELECT random()").plan.schema.names == ("random",)
    with pytest.raises(StreamSqlError) as caught:
        bind("SELECT a FROM t WHERE random() > 0.5", volatile_allowed=False)
    assert caught.value.sqlstate == "0A000"
    assert "random()" in caught.value.message
    assert caught.value.hint
