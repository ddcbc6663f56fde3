"""GROUP BY: accumulators, groups that come and go, DISTINCT and FILTER, exact floats."""

from __future__ import annotations

import decimal
import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsql.core.errors import InvariantViolation
from streamsql.core.schema import Schema
from streamsql.core.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    REAL,
    SMALLINT,
    TEXT,
    numeric,
)
from tests.operators.harness import Bag, Table, View, batch_sql, check_sql, plain, plan_of, view_of

D = decimal.Decimal
KV = Table(Schema.of(("k", TEXT), ("v", INTEGER)))
WIDE = Table(
    Schema.of(
        ("k", INTEGER), ("i", INTEGER), ("b", BIGINT), ("n", numeric(10, 2)), ("s", TEXT),
        ("t", BOOLEAN), ("h", SMALLINT), ("d", DATE),
    ),
    [
        [None, 1, 2, 3],
        [None, 1, 2, -5],
        [None, 2**62, -(2**62), 3],
        [None, D("1.25"), D("-99999.99"), D("0.01")],
        [None, "a", "bb", "abcdefghijk", "abcdefghijl", "é", ""],
        [None, True, False],
        [None, 1, -32768, 32767],
        [None, __import__("datetime").date(2024, 2, 29), __import__("datetime").date(1969, 1, 1)],
    ],
)  # fmt: skip

LINEAR = (
    "count(*), count(i), sum(i), sum(b), sum(n), sum(h), avg(i), avg(n), avg(b), bool_and(t), "
    "bool_or(t)"
)
QUERIES = {
    "linear by key": f"SELECT k, {LINEAR} FROM t0 GROUP BY k",
    "linear over all": f"SELECT {LINEAR} FROM t0",
    "distinct": "SELECT k, count(DISTINCT i), sum(DISTINCT b), count(DISTINCT s), count(*) "
    "FROM t0 GROUP BY k",
    "filter": "SELECT k, count(*) FILTER (WHERE t), sum(i) FILTER (WHERE i > 0), "
    "count(DISTINCT s) FILTER (WHERE t) FROM t0 GROUP BY k",
    "extremes": "SELECT k, min(i), max(i), min(b), max(n), min(s), max(s), max(d), min(h) FROM t0 "
    "GROUP BY k",
    "extremes over all": "SELECT min(s), max(b) FROM t0",
    "having": "SELECT k, count(*) FROM t0 GROUP BY k HAVING sum(i) > 0",
    "two keys": "SELECT k, s, count(*), max(i) FROM t0 GROUP BY k, s",
    "no aggregate": "SELECT k FROM t0 GROUP BY k",
    "rollup": "SELECT k, t, grouping(k, t), sum(i), count(*) FROM t0 GROUP BY ROLLUP (k, t)",
    "of an aggregate": "SELECT n, count(*) FROM (SELECT k, count(*) AS n FROM t0 GROUP BY k) x GROUP BY n",
}


@pytest.mark.parametrize("name", QUERIES)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=2, deadline=None)
def test_aggregate_equals_batch_at_every_tick(name: str, seed: int) -> None:
    check_sql(QUERIES[name], [WIDE], seed)


@pytest.mark.parametrize("name", ["linear by key", "extremes", "distinct"])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=2, deadline=None)
def test_aggregate_equals_batch_over_an_append_only_table(name: str, seed: int) -> None:
    table = Table(WIDE.schema, WIDE.values, append_only=True)
    check_sql(QUERIES[name], [table], seed)


@pytest.mark.parametrize("keys", ["t", "t, h", "t, s"])
def test_group_by_a_boolean_takes_large_batches(keys: str) -> None:
    view = view_of(f"SELECT {keys}, count(*), sum(i) FROM t0 GROUP BY {keys}", [WIDE])
    rows = [(1, i, i, None, "a", (None, True, False)[i % 3], i % 2, None) for i in range(2000)]
    view.insert(*rows)
    view.verify()
    view.delete(*rows[3:1501])
    view.verify()


def test_group_by_emits_only_what_changed() -> None:
    view = view_of("SELECT k, count(*), sum(v) FROM t0 GROUP BY k", [KV])
    view.at("""+ a 1
               + b 5""").gives("""+ a 1 1
                                  + b 1 5""")
    view.at("+ a 2").gives("""- a 1 1
                              + a 2 3""")
    view.at("""- b 5
               + NULL 7""").gives("""- b 1 5
                                     + NULL 1 7""")


def test_group_by_is_silent_when_the_row_it_shows_stays_the_same() -> None:
    view = view_of("SELECT k, max(v) FROM t0 GROUP BY k", [KV])
    view.at("+ a 5").gives("+ a 5")
    view.at("+ a 3").gives("")
    view.at("- a 5").gives("""- a 5
                              + a 3""")
    view.at("""- a 3
               + a 3""").gives("")


def test_null_keys_are_one_group_and_null_values_do_not_count() -> None:
    view = view_of("SELECT k, count(v), sum(v) FROM t0 GROUP BY k", [KV])
    view.at("""+ NULL NULL
               + NULL NULL""").gives("+ NULL 0 NULL")
    view.at("+ NULL 4").gives("""- NULL 0 NULL
                                 + NULL 1 4""")


def test_global_aggregate_keeps_its_row_over_nothing() -> None:
    view = view_of("SELECT count(*), sum(v), min(v) FROM t0", [KV])
    assert dict(view.output) == {(0, None, None): 1}
    view.at("+ a 4").gives("""- 0 NULL NULL
                              + 1 4 4""")
    view.at("- a 4").gives("""- 1 4 4
                              + 0 NULL NULL""")


def test_group_that_loses_all_rows_is_freed() -> None:
    view = view_of("SELECT k, count(DISTINCT v), min(v) FROM t0 GROUP BY k", [KV])
    view.at("""+ a 1
               + a 2""")
    assert view.state_rows() > 0
    view.at("""- a 1
               - a 2""").gives("- a 2 1")
    assert view.state_rows() == 0


def test_delete_then_insert_of_a_group_in_one_tick() -> None:
    view = view_of("SELECT k, sum(v) FROM t0 GROUP BY k", [KV])
    view.at("+ a 1").gives("+ a 1")
    view.at("""- a 1
               + a 9""").gives("""- a 1
                                  + a 9""")


def test_append_only_aggregate_refuses_a_retraction() -> None:
    view = view_of("SELECT max(v) FROM t0", [Table(KV.schema, append_only=True)])
    view.insert(("a", 1))
    view.checks = None
    with pytest.raises(InvariantViolation):
        view.delete(("a", 1))


def test_sum_of_bigint_is_exact_beyond_64_bits() -> None:
    table = Table(Schema.of(("b", BIGINT)))
    view = view_of("SELECT sum(b), avg(b) FROM t0", [table])
    big = 2**63 - 1
    view.insert((big,), (big,), (big,), (-(2**63),))
    ((total, mean),) = view.output
    assert total == 3 * big - 2**63
    assert mean == plain(D(3 * big - 2**63) / 4)


def test_sum_of_interval_adds_field_by_field() -> None:
    table = Table(Schema.of(("k", INTEGER), ("i", INTERVAL)))
    view = view_of("SELECT k, sum(i) FROM t0 GROUP BY k", [table])
    view.insert((1, (1, 2, 3_000)), (1, (0, 40, -5_000)))
    ((_, total),) = view.output
    assert tuple(total) == (1, 42, -2_000)
    view.delete((1, (1, 2, 3_000)))
    ((_, total),) = view.output
    assert tuple(total) == (0, 40, -5_000)


# --- floats: their own tests -----------------------------------------------------------------------
FLOATS = [None, 1.5, -2.25, 0.1, 1e300, -1e300, 1e-300, 5e-324, math.inf, -math.inf, math.nan, 3.0]


def exact_sums(view: View) -> Bag:
    """sum and avg by key, correctly rounded, with SQL's NaN and infinities."""
    groups: dict[object, list[float]] = {}
    for (key, value), weight in view.rows[0].items():
        if weight:
            own = groups.setdefault(key, [])
            own += [float(value)] * weight if value is not None else []
    out: Bag = Counter()
    for key, values in groups.items():
        total: float | None = None
        if values:
            special = {v for v in values if not math.isfinite(v)}
            nan = any(math.isnan(v) for v in special) or len(special) > 1
            finite = math.fsum(v for v in values if math.isfinite(v))
            total = math.nan if nan else special.pop() if special else finite
        mean = None if total is None else total / len(values)
        out[key, plain(total), plain(mean)] += 1
    return out


@given(seed=st.integers(0, 2**32))
@settings(max_examples=12, deadline=None)
def test_float_sum_leaves_no_trace_of_what_was_deleted(seed: int) -> None:
    from tests.operators.harness import check_view

    table = Table(Schema.of(("k", INTEGER), ("x", DOUBLE)), [[None, 1], FLOATS])
    plan = plan_of("SELECT k, sum(x), avg(x) FROM t0 GROUP BY k", [table])
    check_view(plan, [table], exact_sums, seed, most=8)


def test_float_sum_after_a_huge_value_is_deleted_is_that_of_the_rest() -> None:
    table = Table(Schema.of(("x", DOUBLE)))
    view = view_of("SELECT sum(x) FROM t0", [table])
    view.insert((1.0,), (1e300,), (math.nan,), (math.inf,))
    view.delete((math.nan,), (1e300,))
    assert dict(view.output) == {(math.inf,): 1}
    view.delete((math.inf,))
    assert dict(view.output) == {(1.0,): 1}


@pytest.mark.parametrize("append_only", [False, True])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=2, deadline=None)
def test_float_aggregates_equal_batch(append_only: bool, seed: int) -> None:
    table = Table(
        Schema.of(("k", INTEGER), ("x", DOUBLE), ("y", REAL), ("n", numeric(10, 2)), ("i", BIGINT)),
        [[None, 1, 2], [None, 1.5, -2.25, 0.1, 1e12, 7.7], [None, 0.5, 3.25], [None, D("1.25"), D("-7")],
         [None, 1, 2, 2**40]],
        append_only=append_only,
    )  # fmt: skip
    sql = (
        "SELECT k, sum(x), avg(x), sum(y), avg(y), min(x), max(y), var_samp(x), var_pop(y), "
        "stddev_samp(x), stddev_pop(x) FROM t0 GROUP BY k"
    )
    check_sql(sql, [table], seed, most=8)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=2, deadline=None)
def test_min_max_of_floats_order_nan_last(seed: int) -> None:
    for append_only in (False, True):
        table = Table(
            Schema.of(("k", INTEGER), ("x", DOUBLE)), [[None, 1], FLOATS], append_only=append_only
        )
        check_sql("SELECT k, min(x), max(x) FROM t0 GROUP BY k", [table], seed)


def test_distinct_and_group_by_treat_minus_zero_as_zero() -> None:
    table = Table(Schema.of(("x", DOUBLE)))
    view = view_of("SELECT DISTINCT x FROM t0", [table])
    view.insert((0.0,), (-0.0,))
    assert sum(view.output.values()) == 1
    view.delete((0.0,))
    assert sum(view.output.values()) == 1


def test_two_views_of_one_query_share_their_operators_and_the_second_starts_filled() -> None:
    from streamsql.circuit.operator import Step
    from streamsql.core.delta import Delta
    from streamsql.runtime.compile import compile_view

    view = view_of("SELECT k, sum(v) FROM t0 GROUP BY k", [KV])
    view.at("+ a 1")
    nodes = len(view.circuit.nodes)
    again = compile_view(
        plan_of("SELECT k AS key, sum(v) AS total FROM t0 GROUP BY k", [KV]),
        view.circuit,
        {0: view.sources[0]},
    )
    assert len(view.circuit.nodes) == nodes
    rows = Delta(
        __import__("tests.operators.harness", fromlist=["x"]).to_batch([("a", 1)], KV.schema)
    )
    first = again.start(Step(9, 0), {view.sources[0]: rows})
    assert first.batch.to_pylist() == [{"c0": "a", "c1": 1}]
    assert again.drop() == []
    assert batch_sql(again.plan)
