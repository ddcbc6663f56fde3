"""ASOF joins: all comparisons, with and without keys, changes on both sides, ties."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsql.core.schema import Schema
from streamsql.core.types import DOUBLE, INTEGER, TEXT, TIMESTAMP, array_of, numeric
from streamsql.operators import Options
from tests.operators.harness import Event, Table, check_sql, view_of

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
    check_sql(sql, [TRADES, QUOTES], seed, most=9)


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


# --- EMIT ON WINDOW CLOSE -----------------------------------------------------------------------
BASE = dt.datetime(2024, 6, 1, 10)
ON_CLOSE = Options(on_close=True)


def timed(delay_s: int, late_s: int) -> Table:
    schema = Schema.of(("ts", TIMESTAMP), ("k", INTEGER), ("v", INTEGER))
    return Table(
        schema, watermark_column=0, watermark_delay_us=delay_s * 10**6, lateness_us=late_s * 10**6
    )


def at(seconds: int) -> dt.datetime:
    return BASE + dt.timedelta(seconds=seconds)


def closed_answer(
    events: list[Event], op: str, outer: bool, delay_s: int, late_s: int
) -> Counter[tuple]:
    """The rows on time that both watermarks have passed, each beside the nearest one on time."""
    marks, lateness = [at(-1000), at(-1000)], dt.timedelta(seconds=late_s)
    rows: tuple[Counter[tuple], Counter[tuple]] = (Counter(), Counter())
    for relation, row, weight in events:
        if min(marks) == at(-1000) or row[0] >= min(marks) - lateness:
            rows[relation][row] += weight
        if weight > 0:
            moved = row[0] - dt.timedelta(seconds=delay_s)
            marks[relation] = max(marks[relation], moved)
    out: Counter[tuple] = Counter()
    for (ts, k, v), weight in rows[0].items():
        if not weight or ts >= min(marks) - lateness:
            continue
        near = [
            r for r, n in rows[1].items()
            if n and r[1] == k and (r[0] < ts or (op == ">=" and r[0] == ts))
        ]  # fmt: skip
        if near:
            out[ts, v, max(near)[2]] += weight
        elif outer:
            out[ts, v, None] += weight
    return out


@pytest.mark.parametrize("join", ["ASOF JOIN", "ASOF LEFT JOIN"])
@pytest.mark.parametrize("op", [">=", ">"])
@pytest.mark.parametrize(("delay_s", "late_s"), [(0, 0), (3, 2)])
def test_on_close_every_row_comes_once_and_right_however_ticks_are_cut(
    join: str, op: str, delay_s: int, late_s: int
) -> None:
    sql = f"SELECT t0.ts, t0.v, t1.v FROM t0 {join} t1 ON t0.k = t1.k AND t0.ts {op} t1.ts"
    for seed in range(3):
        rng = random.Random(seed)
        events: list[Event] = []
        for i in range(150):
            relation, now = rng.randint(0, 1), i // 2
            row = (at(now - rng.randint(0, 7)), rng.randint(1, 2), rng.randint(0, 9))
            recent = [e for e in events[-12:] if e[2] > 0 and (e[0], e[1], -1) not in events]
            if recent and rng.random() < 0.15:
                relation, row, _ = rng.choice(recent)
                events.append((relation, row, -1))
            elif (relation, row, 1) not in events:
                events.append((relation, row, 1))
        view = view_of(sql, [timed(delay_s, late_s)] * 2, ON_CLOSE)
        for i, event in enumerate(events):
            if i == 70:
                view.restart()
            view.step([event])
        expected = closed_answer(events, op, "LEFT" in join, delay_s, late_s)
        assert view.output == expected
        assert view.compiled.append_only


def test_on_close_frees_what_is_behind_the_watermark() -> None:
    sql = "SELECT t0.ts, t1.v FROM t0 ASOF JOIN t1 ON t0.k = t1.k AND t0.ts >= t1.ts"
    view = view_of(sql, [timed(5, 0)] * 2, ON_CLOSE)
    for i in range(300):
        view.step([(1, (at(i), i % 3, i), 1), (0, (at(i), i % 3, i), 1)])
    assert sum(view.output.values()) == 294
    assert view.state_rows() < 30


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
