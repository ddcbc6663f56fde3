"""ASOF joins: all comparisons, with and without keys, changes on both sides, ties."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsql.core.schema import Schema
from streamsql.core.types import DOUBLE, INTEGER, TEXT, TIMESTAMP, array_of, numeric
from tests.operators.harness import Table, check_sql, view_of

TRADES = Table(
    Schema.of(("k", INTEGER), ("t", INTEGER), ("s", TEXT)),
    [[None, 1, 2], [None, *range(12)], [None, "a", "b"]],
)
QUOTES = Table(
    Schema.of(("k", INTEGER), ("t", INTEGER), ("w", INTEGER), ("u", TEXT)),
    [[None, 1, 2], [None, *range(12)], [None, 1, 2], [None, "a", "b"]],
)
TIMED = Table(Schema.of(("k", INTEGER), ("ts", TIMESTAMP), ("v", INTEGER)))
SQL = "SELECT t0.t, s, t1.t, w FROM t0 {join} t1 ON t0.k = t1.k AND t0.t {op} t1.t"


@pytest.mark.parametrize(
    "keys", ["t0.k = t1.k AND ", "", "t0.k + 1 = t1.k AND ", "t0.s = t1.u AND "]
)
@pytest.mark.parametrize("op", [">=", ">", "<=", "<"])
@pytest.mark.parametrize("join", ["ASOF JOIN", "ASOF LEFT JOIN"])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=1, deadline=None)
def test_asof_join_equals_batch_at_every_tick(join: str, op: str, keys: str, seed: int) -> None:
    sql = f"SELECT * FROM t0 {join} t1 ON {keys}t0.t {op} t1.t"
    check_sql(sql, [TRADES, QUOTES], seed, ticks=8, most=9)


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (DOUBLE, [None, 0.0, -0.5, "nan", 2.5]),
        (numeric(10, 2), [None, "1.25", "-3.00", "7.50"]),
        (TEXT, [None, "", "a", "ab", "abcdefghijk", "abcdefghijl"]),
    ],
)
def test_times_may_be_of_any_type_with_an_order(type_: object, values: list[object]) -> None:
    import decimal

    if type_ not in (TEXT, DOUBLE):
        values = [None if v is None else decimal.Decimal(str(v)) for v in values]
    tables = [Table(Schema.of(("t", type_), ("v", INTEGER)), [values, [1, 2]])] * 2
    for seed in range(2):
        check_sql("SELECT * FROM t0 ASOF JOIN t1 ON t1.t <= t0.t", tables, seed)


def test_right_row_that_comes_late_takes_over_up_to_its_neighbour() -> None:
    view = view_of(SQL.format(join="ASOF JOIN", op=">="), [TRADES, QUOTES])
    view.at("""t0 + 1 3 a
               t0 + 1 7 b
               t0 + 1 12 c
               t1 + 1 2 20 x
               t1 + 1 10 100 y""").gives("""+ 3 a 2 20
                                            + 7 b 2 20
                                            + 12 c 10 100""")
    view.at("t1 + 1 5 50 z").gives("""- 7 b 2 20
                                      + 7 b 5 50""")
    view.at("t1 - 1 2 20 x").gives("- 3 a 2 20")
    view.at("t1 + 2 6 60 other").gives("")


def test_left_join_shows_nulls_while_nothing_is_near() -> None:
    view = view_of(SQL.format(join="ASOF LEFT JOIN", op=">"), [TRADES, QUOTES])
    view.at("""t0 + 1 3 a
               t0 + NULL 3 n
               t0 + 1 NULL m""").gives("""+ 3 a NULL NULL
                                         + 3 n NULL NULL
                                         + NULL m NULL NULL""")
    view.at("t1 + 1 3 30 x").gives("")
    view.at("t1 + 1 2 20 x").gives("""- 3 a NULL NULL
                                      + 3 a 2 20""")
    view.at("""t0 - 1 3 a
               t1 - 1 2 20 x""").gives("- 3 a 2 20")
    view.at("""t0 - NULL 3 n
               t0 - 1 NULL m
               t1 - 1 3 30 x""").gives("""- 3 n NULL NULL
                                         - NULL m NULL NULL""")
    assert not view.held()


def test_of_rows_of_one_time_the_greatest_counts_and_how_often_does_not() -> None:
    view = view_of(SQL.format(join="ASOF JOIN", op=">="), [TRADES, QUOTES])
    view.at("""t0 + 1 3 a
               t0 + 1 3 a
               t1 + 1 2 20 x
               t1 + 1 2 20 x""").gives("""+ 3 a 2 20
                                          + 3 a 2 20""")
    view.at("t1 + 1 2 NULL x").gives("")
    view.at("t1 + 1 2 21 x").gives("""- 3 a 2 20
                                      - 3 a 2 20
                                      + 3 a 2 21
                                      + 3 a 2 21""")
    view.at("t1 - 1 2 20 x").gives("")
    view.at("t1 - 1 2 21 x").gives("""- 3 a 2 21
                                      - 3 a 2 21
                                      + 3 a 2 20
                                      + 3 a 2 20""")


def test_cost_follows_the_rows_between_a_change_and_its_neighbour() -> None:
    view = view_of(SQL.format(join="ASOF JOIN", op=">="), [TRADES, QUOTES])
    view.step([(0, (1, 10 * i, "a"), 1) for i in range(5000)])
    view.step([(1, (1, 1000 * i, i, "q"), 1) for i in range(50)])
    assert view.step([(1, (1, 20_950, 7, "q"), 1)]).num_rows == 2 * 5
    assert view.step([(1, (1, 20_950, 7, "q"), -1)]).num_rows == 2 * 5


def test_match_condition_is_the_same_join() -> None:
    text = "SELECT t0.v, t1.v FROM t0 ASOF {} t1 {}"
    views = [
        view_of(text.format("JOIN", "ON t0.k = t1.k AND t1.ts <= t0.ts"), [TIMED, TIMED]),
        view_of(
            text.format("JOIN", "MATCH_CONDITION (t0.ts >= t1.ts) ON t0.k = t1.k"), [TIMED] * 2
        ),
    ]
    for view in views:
        view.at("t1 + 1 10:00 5")
        view.at("""t0 + 1 10:01 1
                   t0 + 1 09:59 2""").gives("+ 1 5")


def test_asof_join_is_incremental_and_says_what_it_keeps() -> None:
    from streamsql.runtime.explain import explain

    view = view_of(SQL.format(join="ASOF LEFT JOIN", op=">="), [TRADES, QUOTES])
    text = "\n".join(explain(view.compiled))
    assert text.startswith("Maintenance: incremental")
    assert "AsofLeftJoin: k = k and t >= t" in text


def test_nested_columns_have_no_order_and_are_recomputed_by_key() -> None:
    nested = Table(Schema.of(("k", INTEGER), ("t", INTEGER), ("a", array_of(INTEGER))))
    view = view_of("SELECT * FROM t0 ASOF JOIN t1 ON t0.k = t1.k AND t1.t <= t0.t", [nested] * 2)
    assert view.compiled.maintenance == "recompute per key"
