"""EMIT ON WINDOW CLOSE over two watermarks: a row comes when both have passed, and stays."""

from __future__ import annotations

import collections
import random

import pytest

import streamsql

A, B = "tumble(a, t, INTERVAL '10 seconds')", "tumble(b, t, INTERVAL '10 seconds')"
FULL = f"SELECT l.id AS x, r.id AS y FROM {A} l FULL JOIN {B} r USING (window_start, window_end, k)"
COUNTS = (
    f"SELECT x.n, y.n AS m FROM (SELECT window_start, count(*) AS n FROM {A} GROUP BY 1) x "
    f"FULL JOIN (SELECT window_start, count(*) AS n FROM {B} GROUP BY 1) y USING (window_start)"
)
EXCEPT = f"SELECT window_start, k FROM {A} EXCEPT SELECT window_start, k FROM {B}"
EXCEPT_ALL = EXCEPT.replace("EXCEPT", "EXCEPT ALL")
INTERSECT = EXCEPT.replace("EXCEPT", "INTERSECT ALL")
SHAPES = {"full_": FULL, "counts": COUNTS, "ex": EXCEPT, "exall": EXCEPT_ALL, "inter": INTERSECT}
LAG = (
    "SELECT n, lag(n) OVER (ORDER BY w) AS l, sum(n) OVER (ORDER BY w) AS s FROM "
    f"(SELECT window_start AS w, count(*) AS n FROM {A} GROUP BY 1) z"
)


def opened(delay_s: int = 0) -> streamsql.Connection:
    database = streamsql.connect()
    for name in "ab":
        database.execute(
            f"CREATE TABLE {name} (id INT, k INT, t TIMESTAMP, "
            f"WATERMARK FOR t AS t - INTERVAL '{delay_s} seconds')"
        )
    return database


def put(database: streamsql.Connection, table: str, i: int, k: int, second: float) -> None:
    database.execute(
        f"INSERT INTO {table} VALUES ({i}, {k}, "
        f"TIMESTAMP '2024-01-01' + INTERVAL '{second:.3f} seconds')"
    )


def final_view(database: streamsql.Connection, name: str, sql: str) -> None:
    database.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql} EMIT ON WINDOW CLOSE")
    database.execute(f"CREATE SUBSCRIPTION s_{name} FROM {name} WITH (retention = '1 day')")


def changes(database: streamsql.Connection, name: str) -> list[tuple]:
    """(weight, columns …) of all that a view gave."""
    database.execute(f"DECLARE c_{name} SUBSCRIPTION CURSOR FOR s_{name} SINCE begin()")
    return [row[1:] for row in database.execute(f"FETCH 5000 FROM c_{name}").fetchall()]


def shown(database: streamsql.Connection, name: str) -> list[tuple]:
    return sorted(database.execute(f"SELECT * FROM {name}").fetchall(), key=str)


def test_a_full_join_of_windows_waits_for_both_watermarks():
    with opened() as database:
        final_view(database, "full_", FULL)
        put(database, "b", 10, 9, 1)
        put(database, "b", 11, 1, 12)
        put(database, "a", 1, 9, 2)
        assert shown(database, "full_") == []  # b alone has passed 10 s
        put(database, "a", 2, 7, 3)
        put(database, "a", 3, 8, 30)
        assert shown(database, "full_") == [(1, 10), (2, None)]
        put(database, "b", 12, 8, 31)
        assert shown(database, "full_") == [(1, 10), (2, None), (None, 11)]
        assert [weight for weight, *_ in changes(database, "full_")] == [1, 1, 1]


def test_a_full_join_of_window_counts_waits_for_both_watermarks():
    with opened() as database:
        final_view(database, "counts", COUNTS)
        put(database, "a", 1, 1, 1)
        put(database, "a", 2, 1, 25)
        assert shown(database, "counts") == []
        put(database, "b", 1, 1, 5)
        put(database, "b", 2, 1, 6)
        put(database, "b", 3, 1, 11)
        assert shown(database, "counts") == [(1, 2)]
        put(database, "b", 4, 1, 21)
        assert shown(database, "counts") == [(1, 2), (None, 1)]


@pytest.mark.parametrize(("sql", "found"), [(EXCEPT, [2]), (EXCEPT_ALL, [1, 2])])
def test_except_of_windows_waits_for_both_watermarks(sql, found):
    with opened() as database:
        final_view(database, "ex", sql)
        for i, k in enumerate([1, 1, 2, 3]):
            put(database, "a", i, k, 1)
        put(database, "a", 9, 1, 15)
        assert shown(database, "ex") == []  # b may still take any of them away
        put(database, "b", 1, 1, 4)
        put(database, "b", 2, 3, 5)
        put(database, "b", 3, 4, 12)
        assert [k for _, k in shown(database, "ex")] == found
        assert {weight for weight, *_ in changes(database, "ex")} == {1}


@pytest.mark.parametrize("seed", range(3))
def test_what_was_given_out_is_never_taken_back_and_is_the_query_of_all_rows(seed):
    rng = random.Random(seed)
    with opened(delay_s=5) as database:
        for name, sql in SHAPES.items():
            final_view(database, name, sql)
        queues = {
            table: sorted((0.9 * i + rng.random() * 4.9, i, rng.randint(1, 3)) for i in range(25))
            for table in "ab"
        }
        while any(queues.values()):
            table = rng.choice([name for name, queue in queues.items() if queue])
            for _ in range(min(rng.randint(1, 6), len(queues[table]))):
                _, i, k = queues[table].pop(0)
                put(database, table, i, k, 0.9 * i)
        for table in "ab":
            database.execute(f"ADVANCE WATERMARK FOR {table} TO '2024-01-01 01:00:00'")
        for name, sql in SHAPES.items():
            wanted = collections.Counter(database.execute(sql).fetchall())
            assert collections.Counter(shown(database, name)) == wanted, name
            assert all(weight > 0 for weight, *_ in changes(database, name)), name


def test_over_that_looks_back_over_closed_windows_is_final():
    with opened() as database:
        final_view(database, "lagged", LAG)
        for i, second in enumerate([1, 3, 12, 25, 47]):
            put(database, "a", i, 1, second)
        assert changes(database, "lagged") == [(1, 2, None, 2), (1, 1, 2, 3), (1, 1, 1, 4)]


def test_over_that_looks_forward_over_closed_windows_is_refused():
    with opened() as database, pytest.raises(streamsql.StatementError) as refused:
        final_view(database, "led", LAG.replace("lag(n)", "lead(n)"))
    assert refused.value.sqlstate == "0A000"


def test_a_refused_view_leaves_nothing_behind():
    with opened() as database:
        with pytest.raises(streamsql.StatementError, match="GROUP BY without a window's columns"):
            final_view(database, "v", "SELECT k, count(*) FROM a GROUP BY k")
        final_view(database, "v", EXCEPT)
        put(database, "a", 1, 1, 1)
        put(database, "a", 2, 1, 15)
        put(database, "b", 2, 1, 15)
        assert [k for _, k in shown(database, "v")] == [1]
