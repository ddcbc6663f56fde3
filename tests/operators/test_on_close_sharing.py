"""A view that holds rows back shares no node with one of the same query that does not."""

from __future__ import annotations

import itertools

import pytest

import streamsql

LIVE = "SELECT window_start, count(*) FROM TUMBLE(t, ts, INTERVAL '1 minute') GROUP BY window_start"
FINAL = f"{LIVE} EMIT ON WINDOW CLOSE"
ROWS = {LIVE: 2, FINAL: 1}


@pytest.mark.parametrize("order", list(itertools.permutations([LIVE, FINAL, LIVE, FINAL], 3))[:6])
def test_final_and_live_views_of_one_query_keep_apart_in_any_order(order):
    with streamsql.connect() as database:
        database.execute(
            "CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1 minute')"
        )
        for i, query in enumerate(order):
            database.execute(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
        database.execute("INSERT INTO t VALUES ('2024-01-01 00:00:10'), ('2024-01-01 00:03:10')")
        for i, query in enumerate(order):
            assert len(database.execute(f"SELECT * FROM v{i}").fetchall()) == ROWS[query], order
