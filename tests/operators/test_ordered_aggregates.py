"""Ordered, holistic, bitwise and pairwise aggregates under deletes: equal to the batch, undone to nothing."""

from __future__ import annotations

import datetime
import decimal
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsql.core.errors import NegativeWeight
from streamsql.core.schema import Schema
from streamsql.core.types import BIGINT, BOOLEAN, DOUBLE, INTEGER, JSONB, TEXT, TIMESTAMP, numeric
from streamsql.kernels.order_keys import OrderColumn
from streamsql.operators.accumulators.kept_rows import KeptRows
from streamsql.operators.accumulators.percentiles import interpolated
from tests.operators.harness import Table, check_sql, connection, view_of

D = decimal.Decimal
TIMES = [datetime.datetime(2024, 1, 1, 0, 0, 7 * i) for i in range(8)]
ROWS = Table(
    Schema.of(
        ("k", INTEGER), ("i", INTEGER), ("b", BIGINT), ("n", numeric(10, 2)), ("s", TEXT),
        ("t", BOOLEAN), ("x", DOUBLE), ("y", DOUBLE), ("ts", TIMESTAMP), ("j", JSONB),
    ),
    [
        [None, 1, 2],
        [None, 1, 2, -5, 7],
        [None, 2**62, -(2**62), 3],
        [None, D("1.25"), D("-99999.99"), D("0.01")],
        [None, "a", "bb", "é", ""],
        [None, True, False],
        [None, 1.5, -2.25, 1e6, 0.1],
        [None, 3.0, 4.5, -1e3],
        TIMES,
        [None, '{"a": 1}', "[1, 2]"],
    ],
)  # fmt: skip
ALL = "i, b, n, s, t, x, y, ts"
QUERIES = {
    "one order for several": "SELECT k, min(i), max(i), min(i) FILTER (WHERE t), max(i) FILTER (WHERE t), "
    "percentile_disc(0.5) WITHIN GROUP (ORDER BY i), percentile_disc(0.9) WITHIN GROUP (ORDER BY i), "
    "percentile_disc(0.9) WITHIN GROUP (ORDER BY i DESC), min(s), max(s), min(x), "
    "percentile_cont(ARRAY[0.25, 0.75]) WITHIN GROUP (ORDER BY x), mode() WITHIN GROUP (ORDER BY i), "
    "max(DISTINCT x) FROM t0 GROUP BY k",
    "array_agg": f"SELECT k, array_agg(i ORDER BY {ALL}), array_agg(s ORDER BY s DESC, {ALL}) "
    "FROM t0 GROUP BY k",
    "array_agg of arrays": f"SELECT k, array_agg(ARRAY[i, 7] ORDER BY {ALL}) FROM t0 GROUP BY k",
    "array_agg over all": f"SELECT array_agg(n ORDER BY {ALL}, k) FROM t0",
    "array_agg nulls first": f"SELECT k, array_agg(i ORDER BY i NULLS FIRST, {ALL}) FROM t0 GROUP BY k",
    "string_agg": f"SELECT k, string_agg(s, ', ' ORDER BY {ALL}) FROM t0 GROUP BY k",
    "string_agg separators": f"SELECT k, string_agg(s, i::text ORDER BY {ALL}) FROM t0 GROUP BY k",
    "string_agg bytes": f"SELECT k, string_agg(s::bytea, '-'::bytea ORDER BY {ALL}) FROM t0 GROUP BY k",
    "distinct": "SELECT k, array_agg(DISTINCT i), string_agg(DISTINCT s, '+'), "
    "array_agg(DISTINCT x ORDER BY x DESC), jsonb_agg(DISTINCT i) FROM t0 GROUP BY k",
    "filter": f"SELECT k, array_agg(i ORDER BY {ALL}) FILTER (WHERE t), string_agg(DISTINCT s, ',') "
    "FILTER (WHERE i > 0), percentile_disc(0.5) WITHIN GROUP (ORDER BY i) FILTER (WHERE t), "
    "count(*) FROM t0 GROUP BY k",
    "json": f"SELECT k, json_agg(n ORDER BY {ALL}), jsonb_agg(j ORDER BY {ALL}), "
    f"jsonb_object_agg(s, i ORDER BY {ALL}) FILTER (WHERE s IS NOT NULL), "
    f"json_object_agg(coalesce(i, -1), ts ORDER BY {ALL}) FROM t0 GROUP BY k",
    "ends": f"SELECT k, first_value(i ORDER BY {ALL}), last_value(s ORDER BY {ALL}), "
    f"any_value(n ORDER BY {ALL}) FROM t0 GROUP BY k",
    "beside": "SELECT k, min_by(i, i * 2), max_by(s, s), arg_max(b, b) FROM t0 GROUP BY k",
    "percentiles": "SELECT k, percentile_cont(0.3) WITHIN GROUP (ORDER BY x), "
    "percentile_cont(0.3) WITHIN GROUP (ORDER BY i DESC), percentile_disc(0.7) WITHIN GROUP (ORDER BY s), "
    "percentile_disc(0.7) WITHIN GROUP (ORDER BY n DESC), median(n) FROM t0 GROUP BY k",
    "percentile arrays": "SELECT k, percentile_cont(ARRAY[0, 0.5, 1]) WITHIN GROUP (ORDER BY x), "
    "percentile_disc(ARRAY[0.1, 0.9]) WITHIN GROUP (ORDER BY ts) FROM t0 GROUP BY k",
    "percentiles over all": "SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY i), "
    "percentile_disc(ARRAY[0.25, 0.75]) WITHIN GROUP (ORDER BY b) FROM t0",
    "mode": "SELECT k, mode() WITHIN GROUP (ORDER BY s), mode() WITHIN GROUP (ORDER BY i DESC) FROM t0 "
    "GROUP BY k",
    "bits": "SELECT k, bit_and(i), bit_or(b), bit_xor(i), bit_xor(DISTINCT b) FROM t0 GROUP BY k",
    "approximate": "SELECT k, approx_count_distinct(s), count(DISTINCT s) FROM t0 GROUP BY k",
    "mixed with plain ones": f"SELECT k, count(*), sum(i), array_agg(i ORDER BY {ALL}), max(n), "
    "mode() WITHIN GROUP (ORDER BY i), avg(x), bit_or(i) FROM t0 GROUP BY k",
    "tumble": f"SELECT window_start, k, array_agg(i ORDER BY {ALL}), percentile_cont(0.5) WITHIN GROUP "
    "(ORDER BY x) FROM TUMBLE(t0, ts, INTERVAL '10 seconds') GROUP BY window_start, k",
    "hop": f"SELECT window_start, string_agg(s, '' ORDER BY {ALL}), bit_or(i), regr_count(y, x) FROM HOP(t0, ts, "
    "INTERVAL '5 seconds', INTERVAL '15 seconds') GROUP BY window_start, window_end",
    "session": f"SELECT window_start, k, array_agg(s ORDER BY {ALL}), mode() WITHIN GROUP (ORDER BY i) FROM "
    "SESSION(t0 PARTITION BY k, ts, INTERVAL '9 seconds') GROUP BY window_start, window_end, k",
}


def rounded(calls: str) -> str:
    """What may be 0 but for the order in which a batch adds floats."""
    return ", ".join(f"round(({call})::numeric, 9)" for call in calls.split("; "))


PAIRS = {
    "regression": "SELECT k, regr_count(y, x), regr_avgx(y, x), regr_avgy(y, x), "
    + rounded("regr_sxx(y, x); regr_syy(y, x); covar_pop(y, x); covar_samp(y, x); regr_slope(y, x)")
    + " FROM t0 GROUP BY k",
    "correlation": "SELECT k, "
    + rounded("corr(y, x); regr_r2(y, x); regr_intercept(y, x); regr_sxy(y, x)")
    + " FROM t0 GROUP BY k",
    "distinct pairs": "SELECT "
    + rounded("covar_pop(DISTINCT y, x); corr(y, x) FILTER (WHERE t)")
    + " FROM t0",
}


@pytest.mark.parametrize("name", QUERIES)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=2, deadline=None)
def test_aggregate_equals_batch_at_every_tick(name: str, seed: int) -> None:
    check_sql(QUERIES[name], [ROWS], seed)


@pytest.mark.parametrize("name", QUERIES)
def test_it_is_incremental(name: str) -> None:
    assert view_of(QUERIES[name], [ROWS]).compiled.maintenance == "incremental"


@pytest.mark.parametrize("name", ["array_agg", "mixed with plain ones", "ends", "session", "hop"])
def test_aggregate_equals_batch_over_an_append_only_table(name: str) -> None:
    check_sql(QUERIES[name], [Table(ROWS.schema, ROWS.values, append_only=True)], 5)


SMALL = Table(
    Schema.of(("k", INTEGER), ("x", DOUBLE), ("y", DOUBLE), ("t", BOOLEAN)),
    [[None, 1], [None, 1.0, 2.0, 4.0, -3.5], [None, 1.0, 2.5, 0.25], [None, True, False]],
)


@pytest.mark.parametrize("name", PAIRS)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=3, deadline=None)
def test_pairs_equal_batch_at_every_tick(name: str, seed: int) -> None:
    check_sql(PAIRS[name], [SMALL], seed)


def arrivals(sql: str = "SELECT k, array_agg(v), first_value(v), last_value(v) FROM t0 GROUP BY k"):
    table = Table(Schema.of(("k", INTEGER), ("v", INTEGER), ("id", INTEGER)), unique_key=(2,))
    return view_of(sql, [table])


def test_without_order_by_values_stand_in_order_of_arrival_and_leave_where_they_stood() -> None:
    view = arrivals()
    view.insert((1, 5, 1), (1, 3, 2), (1, 5, 3))
    assert dict(view.output) == {(1, (5, 3, 5), 5, 5): 1}
    view.delete((1, 5, 1))  # found by its key, although another row has the same value
    assert dict(view.output) == {(1, (3, 5), 3, 5): 1}
    view.restart()
    view.step([(0, (1, 9, 4), 1), (0, (1, 3, 2), -1), (0, (1, 3, 2), 1)])
    assert dict(view.output) == {(1, (5, 9, 3), 5, 3): 1}  # it went before it came again
    view.step([(0, (1, 9, 4), 1), (0, (1, 9, 4), -1)])  # came and went: no trace
    assert dict(view.output) == {(1, (5, 9, 3), 5, 3): 1}
    view.step([(0, (1, 7, 5), -1), (0, (1, 7, 5), 1), (0, (1, 5, 3), -1), (0, (1, 5, 3), 1)])
    assert dict(view.output) == {(1, (9, 3, 5), 9, 5): 1}
    view.delete((1, 3, 2), (1, 5, 3), (1, 9, 4))
    assert not view.output and not view.state_rows()


def test_the_key_is_kept_beside_computed_arguments_too() -> None:
    view = arrivals("SELECT k % 2, array_agg(v + 1) FROM t0 GROUP BY k % 2")
    view.insert((1, 5, 1), (1, 3, 2), (3, 5, 3))
    view.delete((1, 5, 1))
    assert dict(view.output) == {(1, (4, 6)): 1}


def test_of_identical_rows_the_last_goes_first_so_that_ticks_may_be_cut_anywhere() -> None:
    one, other = (
        view_of("SELECT array_agg(v) FROM t0", [Table(Schema.of(("v", INTEGER)))]) for _ in "ab"
    )
    events = [(0, (5,), 1), (0, (3,), 1), (0, (5,), 1), (0, (5,), -1), (0, (4,), 1)]
    one.step(events)
    for event in events:
        other.step([event])
    assert one.output == other.output
    assert dict(one.output) == {((5, 3, 4),): 1}


def test_any_value_is_the_first_that_is_not_null_and_ties_of_arg_max_go_to_the_first() -> None:
    view = arrivals("SELECT k, any_value(v), arg_max(id, v), arg_min(id, v) FROM t0 GROUP BY k")
    view.insert((1, None, 1), (1, 5, 2), (1, 5, 3), (1, None, 4))
    assert dict(view.output) == {(1, 5, 2, 2): 1}
    view.delete((1, 5, 2))
    assert dict(view.output) == {(1, 5, 3, 3): 1}


def test_only_touched_groups_are_given_out() -> None:
    view = view_of("SELECT k, array_agg(v ORDER BY v) FROM t0 GROUP BY k", [SMALL_KV])
    view.insert((1, 2), (2, 7))
    view.at("+ 1 1").gives("""- 1 (2,)
                              + 1 (1, 2)""")


SMALL_KV = Table(Schema.of(("k", INTEGER), ("v", INTEGER)))


def test_kept_rows_refuse_what_is_not_there_and_let_go_of_dead_rows() -> None:
    rows = KeptRows([pa.int64()], [OrderColumn(pa.int64(), descending=True)], retracts=True)
    n = 20_000
    groups, values = np.arange(n) % 3, pa.array(np.arange(n) % 1000)
    rows.add(groups, np.empty(0, np.int64), [values], [values], [values, pa.array(np.arange(n))])
    gone = np.flatnonzero(np.arange(n) >= 500)
    taken = pa.array(gone)
    identity = [values.take(taken), taken]
    rows.add(groups[gone], np.full(gone.size, -1), [identity[0]], [identity[0]], identity)
    assert rows.rows == 500 and rows.store.num_rows == n
    rows.tidy()
    assert rows.store.num_rows == 500
    which, found = rows.of(np.array([0, 1, 2]))
    expected = [
        v for g in range(3) for v in sorted((i for i in range(500) if i % 3 == g), reverse=True)
    ]
    assert rows.take(found)[0].to_pylist() == expected
    assert np.bincount(which).tolist() == [167, 167, 166]
    with pytest.raises(NegativeWeight):
        rows.add(
            groups[:1], np.array([-2]), [values[:1]], [values[:1]], [values[:1], pa.array([0])]
        )
    again = KeptRows([pa.int64()], [OrderColumn(pa.int64(), descending=True)], retracts=True)
    again.load(rows.save())
    again.free(np.array([0, 1, 2]))
    assert again.rows == 0 and again.where.keys == 0


def test_percentile_is_bit_for_bit_that_of_a_plain_query() -> None:
    rng = random.Random(7)
    for _ in range(60):
        values = sorted(rng.uniform(-10, 10) for _ in range(rng.randint(2, 30)))
        fraction = rng.random()
        sql = f"SELECT quantile_cont(v, CAST({fraction!r} AS DOUBLE)) FROM (SELECT unnest(?::DOUBLE[]) v)"
        wanted = connection().execute(sql, [values]).fetchall()[0][0]
        place = (len(values) - 1) * fraction
        low, high = values[int(np.floor(place))], values[int(np.ceil(place))]
        parts = (np.array([x]) for x in (low, high, place - np.floor(place)))
        assert interpolated(*parts)[0] == wanted


def test_what_postgresql_calls_null_is_null_and_not_nan() -> None:
    sql = (
        "SELECT k, corr(y, x), regr_slope(y, x), regr_r2(y, x), covar_samp(y, x) FROM t0 GROUP BY k"
    )
    table = Table(Schema.of(("k", INTEGER), ("x", DOUBLE), ("y", DOUBLE)))
    view = view_of(sql, [table])
    view.insert((1, 2.0, 1.0), (1, 2.0, 3.0), (2, 1.0, 5.0), (2, 2.0, 5.0), (3, 1.0, 1.0))
    assert dict(view.output) == {
        (1, None, None, None, 0.0): 1, (2, None, 0.0, 1.0, 0.0): 1, (3, None, None, None, None): 1,
    }  # fmt: skip
    view.verify()
    view.insert((3, float("nan"), 1.0))
    assert (3, None, "nan", 1.0, "nan") in view.output  # y is constant


def test_pairs_leave_no_trace_of_what_is_deleted() -> None:
    table = Table(Schema.of(("x", DOUBLE), ("y", DOUBLE)))
    view = view_of("SELECT covar_pop(y, x), corr(y, x) FROM t0", [table])
    view.insert((1.0, 2.0), (2.0, 3.0))
    before = dict(view.output)
    view.insert((1e140, -1e140), (float("inf"), 1.0))
    view.delete((1e140, -1e140), (float("inf"), 1.0))
    assert dict(view.output) == before


def test_bitwise_aggregates_use_every_bit() -> None:
    view = view_of(
        "SELECT bit_and(v), bit_or(v), bit_xor(v) FROM t0", [Table(Schema.of(("v", BIGINT)))]
    )
    view.insert((-(2**63),), (-1,))
    assert dict(view.output) == {(-(2**63), -1, 2**63 - 1): 1}
    view.delete((-1,))
    assert dict(view.output) == {(-(2**63), -(2**63), -(2**63)): 1}
