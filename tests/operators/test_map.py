"""Filter and projection, and rows that an expression fails on."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsql.core.schema import Schema
from streamsql.core.types import INTEGER, TEXT
from streamsql.operators import Options
from tests.operators.harness import Table, check_sql, view_of

T = Table(
    Schema.of(("k", INTEGER), ("v", INTEGER), ("s", TEXT)),
    [[None, 1, 2, 3], [None, 1, 2, -5], [None, "a", "b"]],
)
PAIR = Table(Schema.of(("a", INTEGER), ("b", INTEGER)))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, v + 1, upper(s) FROM t0",
        "SELECT * FROM t0 WHERE v > 0",
        "SELECT s, k FROM t0 WHERE v > 0 AND s = 'a'",
        "SELECT 1 FROM t0 WHERE k IS NULL",
        "SELECT regexp_replace(s, 'a', 'x') FROM t0 WHERE s LIKE 'a%'",
        "SELECT DISTINCT x FROM (VALUES (1), (2), (1)) AS y (x)",
        "SELECT 1, 'a'",
        "SELECT k FROM t0 WHERE false",
    ],
)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=1, deadline=None)
def test_map_equals_batch_at_every_tick(sql: str, seed: int) -> None:
    check_sql(sql, [T], seed)


def test_bad_row_is_kept_out_reported_and_healed_by_its_deletion() -> None:
    view = view_of("SELECT a / b FROM t0", [PAIR])
    view.at("""+ 8 2
               + 5 0""").gives("+ 4")
    (error,) = view.errors
    assert (error.sqlstate, error.message, error.weight) == ("22012", "division by zero", 1)
    assert error.row_json == '{"a": 5, "b": 0}'
    assert error.node >= 0
    view.at("- 5 0").gives("")
    assert [e.weight for e in view.errors] == [1, -1]


def test_bad_row_in_a_condition_is_kept_out() -> None:
    view = view_of("SELECT a FROM t0 WHERE 10 / b > 1", [PAIR])
    view.at("""+ 1 2
               + 2 0
               + 3 100""").gives("+ 1")
    assert len(view.errors) == 1


def test_on_error_null_keeps_the_row() -> None:
    view = view_of("SELECT a, a / b FROM t0", [PAIR], Options(on_error="null"))
    view.at("+ 5 0").gives("+ 5 NULL")
    view.at("- 5 0").gives("- 5 NULL")


def test_on_error_fail_fails_while_the_bad_row_is_there() -> None:
    view = view_of("SELECT a / b FROM t0", [PAIR], Options(on_error="fail"))
    assert view.compiled.failure() is None
    view.at("""+ 5 0
               + 6 0""")
    assert view.compiled.failure() == ("22012", "division by zero")
    view.restart()
    view.at("- 5 0")
    assert view.compiled.failure() == ("22012", "division by zero")
    view.at("- 6 0")
    assert view.compiled.failure() is None


def test_table_as_it_is_gets_a_node_of_its_own() -> None:
    view = view_of("SELECT * FROM t0", [T])
    assert view.compiled.output not in view.sources
    view.at("+ 1 2 a").gives("+ 1 2 a")
