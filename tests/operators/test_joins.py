"""Joins of every kind, set operations, DISTINCT."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsql.core.errors import NegativeWeight
from streamsql.core.schema import Schema
from streamsql.core.types import BIGINT, DOUBLE, INTEGER, TEXT, numeric
from tests.operators.harness import Table, check_sql, view_of

A = Table(
    Schema.of(("k", INTEGER), ("v", INTEGER), ("s", TEXT)),
    [[None, 1, 2, 3], [None, 1, 2, -5], [None, "a", "b", "zz"]],
)
B = Table(
    Schema.of(("k", INTEGER), ("w", INTEGER), ("u", TEXT)),
    [[None, 1, 2, 3], [None, 1, 2, -5], [None, "a", "b", "zz"]],
)
LEFT = Table(Schema.of(("k", INTEGER), ("v", TEXT)))
RIGHT = Table(Schema.of(("k", INTEGER), ("w", TEXT)))

QUERIES = [
    "SELECT * FROM t0 JOIN t1 ON t0.k = t1.k",
    "SELECT * FROM t0 JOIN t1 ON t0.k = t1.k AND t0.s = t1.u",
    "SELECT t0.s, t1.u FROM t0 JOIN t1 ON t0.k = t1.w AND v < w",
    "SELECT t0.k IS NULL, u FROM t0 JOIN t1 ON t0.k = t1.k AND v < w",
    "SELECT * FROM t0 JOIN t1 ON t0.k IS NOT DISTINCT FROM t1.k",
    "SELECT * FROM t0 JOIN t1 ON t0.k + 1 = t1.k * 2",
    "SELECT a.k, b.v FROM t0 a JOIN t0 b ON a.k = b.v",
    "SELECT a.k FROM t0 a JOIN t1 b ON a.k = b.k JOIN t0 c ON c.v = b.w",
    "SELECT * FROM t0 CROSS JOIN t1",
    "SELECT * FROM t0 JOIN t1 ON v < w",
    "SELECT * FROM t0 LEFT JOIN t1 ON t0.k = t1.k",
    "SELECT * FROM t0 RIGHT JOIN t1 ON t0.k = t1.k",
    "SELECT * FROM t0 FULL JOIN t1 ON t0.k = t1.k",
    "SELECT * FROM t0 FULL JOIN t1 ON t0.k = t1.k AND v < w",
    "SELECT * FROM t0 LEFT JOIN t1 ON v < w",
    "SELECT * FROM t0 LEFT JOIN t1 ON t0.k + 1 = t1.k",
    "SELECT a.k FROM t0 a LEFT JOIN t0 b ON a.k = b.v LEFT JOIN t1 c ON c.k = b.k",
    "SELECT * FROM t0 WHERE EXISTS (SELECT 1 FROM t1 WHERE t1.k = t0.k)",
    "SELECT * FROM t0 WHERE NOT EXISTS (SELECT 1 FROM t1 WHERE t1.k = t0.k)",
    "SELECT * FROM t0 WHERE NOT EXISTS (SELECT 1 FROM t1 WHERE t1.k = t0.k AND w > v)",
    "SELECT * FROM t0 WHERE k IN (SELECT k FROM t1)",
    "SELECT * FROM t0 WHERE k NOT IN (SELECT w FROM t1)",
    "SELECT k, v FROM t0 UNION ALL SELECT k, w FROM t1",
    "SELECT k, v FROM t0 UNION SELECT k, w FROM t1",
    "SELECT k, v FROM t0 EXCEPT SELECT k, w FROM t1",
    "SELECT k FROM t0 EXCEPT ALL SELECT w FROM t1",
    "SELECT k FROM t0 INTERSECT SELECT w FROM t1",
    "SELECT k FROM t0 INTERSECT ALL SELECT w FROM t1",
    "SELECT DISTINCT k, s FROM t0",
]


@pytest.mark.parametrize("sql", QUERIES)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=2, deadline=None)
def test_join_equals_batch_at_every_tick(sql: str, seed: int) -> None:
    check_sql(sql, [A, B], seed)


def test_pairs_fetch_the_columns_that_are_read() -> None:
    view = view_of("SELECT u, v FROM t0 JOIN t1 ON t0.k = t1.k AND v < w", [A, B])
    (join,) = (n.operator for n in view.circuit if type(n.operator).__name__ == "Join")
    assert sorted(c.name for c in join.schema) == ["u", "v", "w"]
    failing = view_of("SELECT u FROM t0 JOIN t1 ON t0.k = t1.k AND 1 / v < w", [A, B])
    (join,) = (n.operator for n in failing.circuit if type(n.operator).__name__ == "Join")
    assert len(join.schema) == 5, "the whole pair is told of"


def test_inner_join_pairs_rows_that_come_in_one_tick_once() -> None:
    view = view_of("SELECT t0.k, v, w FROM t0 JOIN t1 ON t0.k = t1.k", [LEFT, RIGHT])
    view.at("""t0 + 1 a
               t1 + 1 x""").gives("+ 1 a x")
    view.at("""t0 + 1 b
               t1 + 1 y""").gives("""+ 1 a y
                                     + 1 b x
                                     + 1 b y""")
    view.at("""t0 - 1 a
               t1 - 1 x""").gives("""- 1 a x
                                     - 1 a y
                                     - 1 b x""")


def test_inner_join_multiplies_duplicates_and_never_matches_null() -> None:
    view = view_of("SELECT t0.k, v, w FROM t0 JOIN t1 ON t0.k = t1.k", [LEFT, RIGHT])
    view.at("""t0 + 1 a
               t0 + 1 a
               t0 + NULL n
               t1 + NULL m
               t1 + 1 x
               t1 + 1 x""").gives("""+ 1 a x
                                     + 1 a x
                                     + 1 a x
                                     + 1 a x""")
    view.at("t0 - 1 a").gives("""- 1 a x
                                 - 1 a x""")


def test_left_join_replaces_null_row_when_match_arrives() -> None:
    view = view_of("SELECT t0.k, v, w FROM t0 LEFT JOIN t1 ON t0.k = t1.k", [LEFT, RIGHT])
    view.at("""t0 + 1 a
               t0 + NULL n""").gives("""+ 1 a NULL
                                        + NULL n NULL""")
    view.at("t1 + 1 x").gives("""- 1 a NULL
                                 + 1 a x""")
    view.at("t1 + 1 y").gives("+ 1 a y")
    view.at("""t1 - 1 x
               t1 - 1 y""").gives("""- 1 a x
                                     - 1 a y
                                     + 1 a NULL""")


def test_full_join_keeps_both_sides_that_match_nothing() -> None:
    view = view_of("SELECT t0.k, v, t1.k, w FROM t0 FULL JOIN t1 ON t0.k = t1.k", [LEFT, RIGHT])
    view.at("""t0 + 1 a
               t1 + 2 x""").gives("""+ 1 a NULL NULL
                                     + NULL NULL 2 x""")
    view.at("t0 + 2 b").gives("""- NULL NULL 2 x
                                 + 2 b 2 x""")
    view.at("""t0 - 2 b
               t1 - 2 x""").gives("- 2 b 2 x")


def test_anti_join_gives_rows_back_when_the_last_match_goes() -> None:
    view = view_of(
        "SELECT k, v FROM t0 WHERE NOT EXISTS (SELECT 1 FROM t1 WHERE t1.k = t0.k)", [LEFT, RIGHT]
    )
    view.at("""t0 + 1 a
               t0 + 1 b
               t0 + NULL n
               t1 + 1 x
               t1 + 1 y""").gives("+ NULL n")
    view.at("t1 - 1 x").gives("")
    view.at("t1 - 1 y").gives("""+ 1 a
                                 + 1 b""")


def test_semi_join_does_not_repeat_rows_for_several_matches() -> None:
    view = view_of("SELECT k, v FROM t0 WHERE k IN (SELECT k FROM t1)", [LEFT, RIGHT])
    view.at("""t0 + 1 a
               t1 + 1 x
               t1 + 1 y""").gives("+ 1 a")


def test_except_all_counts_and_except_does_not() -> None:
    both = view_of("SELECT k FROM t0 EXCEPT ALL SELECT k FROM t1", [LEFT, RIGHT])
    both.at("""t0 + 1 a
               t0 + 1 b
               t1 + 1 x""").gives("+ 1")
    one = view_of("SELECT k FROM t0 EXCEPT SELECT k FROM t1", [LEFT, RIGHT])
    one.at("""t0 + 1 a
              t0 + 1 b
              t0 + NULL c""").gives("""+ 1
                                       + NULL""")
    one.at("t1 + 1 x").gives("- 1")
    one.at("t1 + NULL x").gives("- NULL")


def test_distinct_shows_a_row_until_its_last_copy_goes() -> None:
    view = view_of("SELECT DISTINCT k, v FROM t0", [LEFT])
    view.at("""+ 1 a
               + 1 a""").gives("+ 1 a")
    view.at("- 1 a").gives("")
    view.at("- 1 a").gives("- 1 a")


def test_join_keys_of_other_numeric_types_meet() -> None:
    tables = [
        Table(Schema.of(("a", numeric(10, 2)), ("x", BIGINT), ("f", DOUBLE))),
        Table(Schema.of(("b", numeric(8, 4)), ("y", INTEGER), ("g", DOUBLE))),
    ]
    view = view_of("SELECT a, y FROM t0 JOIN t1 ON a = b AND x = y AND f = g", tables)
    from decimal import Decimal

    view.step([(0, (Decimal("1.50"), 7, 0.0), 1), (1, (Decimal("1.5"), 7, -0.0), 1)])
    assert list(view.output) == [(Decimal("1.5"), 7)]


def test_retraction_of_a_row_that_is_not_there_is_an_invariant_violation() -> None:
    view = view_of("SELECT DISTINCT k FROM t0", [LEFT])
    view.circuit.check = None
    with pytest.raises(Exception) as caught:
        view.delete((1, "a"))
    assert isinstance(caught.value.__cause__, NegativeWeight)


def test_joins_over_one_table_share_its_arrangement() -> None:
    view = view_of(
        "SELECT a.k FROM t0 a JOIN t1 b ON a.k = b.k UNION ALL "
        "SELECT a.k FROM t0 a JOIN t1 c ON a.v = c.w",
        [LEFT, RIGHT],
    )
    arranged = [n for n in view.circuit if n.operator.name == "Arrange"]
    wide = [n for n in arranged if len(n.operator.schema) == 2]
    assert len(wide) <= 2
    view.at("""t0 + 1 a
               t1 + 1 a""").gives("""+ 1
                                     + 1""")
