"""SESSION windows: bridging, splitting, `max`, partitions, and their aggregates."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsql.core.schema import Schema
from streamsql.core.types import INTEGER, TEXT, TIMESTAMP
from tests.operators.harness import Table, check_sql, view_of

TIMES = [None] + [dt.datetime(2024, 1, 1) + dt.timedelta(seconds=7 * i) for i in range(12)]
EVENTS = Schema.of(("ts", TIMESTAMP), ("k", INTEGER), ("v", INTEGER))
VALUES = [TIMES, [None, 1, 2], [None, 1, 2, -5]]
QUERIES = [
    "SELECT window_start, window_end, k, count(*), sum(v) FROM SESSION(t0 PARTITION BY k, ts, "
    "INTERVAL '10 seconds') GROUP BY 1, 2, 3",
    "SELECT window_start, count(*), max(v) FROM SESSION(t0, ts, INTERVAL '10 seconds') "
    "GROUP BY window_start, window_end",
    "SELECT * FROM SESSION(t0 PARTITION BY k, ts, INTERVAL '10 seconds')",
    "SELECT * FROM SESSION(t0 PARTITION BY k, ts, INTERVAL '10 seconds', max => INTERVAL "
    "'20 seconds')",
    "SELECT * FROM SESSION(t0, ts, INTERVAL '10 seconds')",
    "SELECT * FROM SESSION(t0 PARTITION BY k, ts, INTERVAL '1 month')",
    "SELECT window_start, k, v, count(*) FROM SESSION(t0 PARTITION BY k, ts, INTERVAL "
    "'10 seconds') GROUP BY window_start, window_end, k, v",
]


@pytest.mark.parametrize("append_only", [False, True])
@pytest.mark.parametrize("sql", QUERIES)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=2, deadline=None)
def test_session_equals_batch_at_every_tick(sql, append_only, seed) -> None:
    check_sql(sql, [Table(EVENTS, VALUES, append_only=append_only)], seed, most=7)


ROWS = Table(Schema.of(("ts", TIMESTAMP), ("k", TEXT)))
BY_ROW = "SELECT k, ts, window_start, window_end FROM SESSION(t0 PARTITION BY k, ts, INTERVAL '10 minutes')"
BY_KEY = (
    "SELECT k, window_start, window_end, count(*) FROM SESSION(t0 PARTITION BY k, ts, INTERVAL "
    "'10 minutes') GROUP BY 1, 2, 3"
)


def test_row_that_bridges_two_sessions_takes_both_back() -> None:
    view = view_of(BY_KEY, [Table(ROWS.schema, append_only=True)])
    view.at("""+ 10:00 a
               + 10:12 a
               + 10:03 b""").gives("""+ a 10:00 10:10 1
                                      + a 10:12 10:22 1
                                      + b 10:03 10:13 1""")
    view.at("+ 10:06 a").gives("""- a 10:00 10:10 1
                                  - a 10:12 10:22 1
                                  + a 10:00 10:22 3""")


def test_rows_exactly_the_gap_apart_are_one_session() -> None:
    view = view_of(BY_KEY, [Table(ROWS.schema, append_only=True)])
    view.at("""+ 10:00 a
               + 10:10 a""").gives("+ a 10:00 10:20 2")
    view.at("+ 10:20:01 a").gives("+ a 10:20:01 10:30:01 1")


def test_row_inside_of_a_session_moves_no_other_row() -> None:
    view = view_of(BY_ROW, [ROWS])
    view.at("""+ 10:00 a
               + 10:08 a""").gives("""+ a 10:00 10:00 10:18
                                      + a 10:08 10:00 10:18""")
    view.at("+ 10:04 a").gives("+ a 10:04 10:00 10:18")


def test_delete_splits_a_session() -> None:
    view = view_of(BY_ROW, [ROWS])
    view.at("""+ 10:00 a
               + 10:06 a
               + 10:12 a""")
    view.at("- 10:06 a").gives("""- a 10:00 10:00 10:22
                                  - a 10:06 10:00 10:22
                                  - a 10:12 10:00 10:22
                                  + a 10:00 10:00 10:10
                                  + a 10:12 10:12 10:22""")
    view.at("""- 10:00 a
               - 10:12 a""")
    assert not view.output
    assert view.state_rows() == 0


def test_duplicate_row_changes_no_bounds() -> None:
    view = view_of(BY_ROW, [ROWS])
    view.at("+ 10:00 a").gives("+ a 10:00 10:00 10:10")
    view.at("+ 10:00 a").gives("+ a 10:00 10:00 10:10")
    view.at("- 10:00 a").gives("- a 10:00 10:00 10:10")


def test_max_cuts_a_session_and_the_next_row_starts_a_new_one() -> None:
    sql = (
        "SELECT ts, window_start, window_end FROM SESSION(t0, ts, INTERVAL '10 minutes', "
        "max => INTERVAL '15 minutes')"
    )
    view = view_of(sql, [ROWS])
    view.at("""+ 10:00 a
               + 10:08 a
               + 10:16 a""").gives("""+ 10:00 10:00 10:15
                                      + 10:08 10:00 10:15
                                      + 10:16 10:16 10:26""")


def test_sessions_in_random_order_end_as_in_order() -> None:
    import random

    rows = [(dt.datetime(2024, 1, 1) + dt.timedelta(minutes=3 * (i * i % 97)), "ab"[i % 2])
            for i in range(200)]  # fmt: skip
    random.Random(5).shuffle(rows)
    for append_only in (True, False):
        view = view_of(BY_KEY, [Table(ROWS.schema, append_only=append_only)])
        for start in range(0, 200, 40):
            view.insert(*rows[start : start + 40])
            view.verify()
