"""VERIFY says nothing about a right view: time zones, rounding of floats, nested types."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import streamsql
from streamsql.core.delta import Delta
from streamsql.core.errors import FeatureNotSupported
from streamsql.core.schema import Schema
from streamsql.core.types import DOUBLE, INTEGER, array_of
from streamsql.engine.statements.closeness import without_rounding
from streamsql.functions.compute.exact_sums import exact_sum
from streamsql.functions.definitions import KernelCall

LOCAL = "tz::text AS x, extract(day FROM tz) AS d, date_trunc('day', tz) AS t, tz::date AS e"


@pytest.fixture
def db():
    with streamsql.connect() as made:
        made.execute("CREATE TABLE a (id INT PRIMARY KEY, tz TIMESTAMPTZ, x DOUBLE PRECISION)")
        made.execute(
            "INSERT INTO a VALUES (1, '2024-01-01 03:00+00', 0.1), (2, '2024-07-01 03:00+00', 0.2)"
        )
        yield made


def test_a_query_through_duckdb_uses_the_session_time_zone(db):
    """What has no loop of ours (here IN over UNION) sees the same zone as what has one."""
    db.execute("SET TimeZone = 'America/New_York'")
    fast = db.execute(f"SELECT id, {LOCAL} FROM a").fetchall()
    both = "SELECT max(id) FROM a UNION SELECT min(id) FROM a"
    assert db.execute(f"SELECT id, {LOCAL} FROM a WHERE id IN ({both})").fetchall() == fast
    assert fast[0][1] == "2023-12-31 22:00:00-05"
    assert fast[0][4] == datetime.date(2023, 12, 31)
    db.execute("SET TimeZone = 'UTC'")
    utc = db.execute(f"SELECT id, {LOCAL} FROM a WHERE id IN ({both})").fetchall()
    assert utc[0][1] == "2024-01-01 03:00:00+00"


@pytest.mark.parametrize("query", [
    f"SELECT id, {LOCAL} FROM a",
    "SELECT tz::date AS d, count(*) AS n, max(tz::text) AS x FROM a GROUP BY 1",
    f"SELECT id, {LOCAL} FROM a WHERE tz::date >= ALL (SELECT b.tz::date FROM a b WHERE b.id = a.id)",
    "SELECT id, (SELECT string_agg(b.tz::date::text, ',' ORDER BY b.id) FROM a b WHERE b.id <= a.id) AS l FROM a",
])  # fmt: skip
def test_a_view_keeps_the_time_zone_it_was_made_under(db, query):
    db.execute("SET TimeZone = 'America/New_York'")
    db.execute(f"CREATE MATERIALIZED VIEW m AS {query}")
    asked = sorted(db.execute(query).fetchall())
    db.execute("SET TimeZone = 'UTC'")
    db.execute(f"CREATE MATERIALIZED VIEW other AS {query}")
    assert sorted(db.execute("SELECT * FROM m").fetchall()) == asked
    assert db.execute("VERIFY MATERIALIZED VIEW m").fetchall() == []
    assert db.execute("VERIFY MATERIALIZED VIEW other").fetchall() == []
    other = sorted(db.execute("SELECT * FROM other").fetchall())
    assert other == sorted(db.execute(query).fetchall()) != asked


def test_sums_of_floats_in_another_order_are_right(db):
    db.execute(
        "CREATE MATERIALIZED VIEW m AS SELECT sum(x) AS s, stddev(x) AS v, avg(x) AS a FROM a"
    )
    values = ", ".join(f"({i}, NULL, {(i * 7919) % 1000 / 7})" for i in range(3, 400))
    db.execute(f"INSERT INTO a VALUES {values}")
    db.execute("DELETE FROM a WHERE id % 3 = 0")
    assert db.execute("VERIFY MATERIALIZED VIEW m").fetchall() == []


def test_spreads_of_integers_over_frames_are_right(db):
    db.execute("CREATE TABLE n (id INT PRIMARY KEY, v INT)")
    db.execute(
        "CREATE MATERIALIZED VIEW m AS SELECT id, stddev(v) OVER (ORDER BY id) AS s, avg(v) OVER (ORDER BY id) AS a "
        "FROM n"
    )
    values = ", ".join(f"({i}, {(i * 7919) % 101})" for i in range(60))
    db.execute(f"INSERT INTO n VALUES {values}")
    db.execute("DELETE FROM n WHERE id % 7 = 0")
    assert db.execute("VERIFY MATERIALIZED VIEW m").fetchall() == []


@pytest.mark.parametrize("query", [
    "SELECT id, now() AS seen FROM a",
    "SELECT max(now() - tz) AS age FROM a",
])  # fmt: skip
def test_what_shows_when_rows_came_is_verified_where_ticks_are_known(db, query):
    """The times are not kept with the rows, but with the ticks since the view was made."""
    db.execute("SET streamsql.clock = 'manual'")
    db.execute(f"CREATE MATERIALIZED VIEW m AS {query}")
    db.execute("ADVANCE CLOCK BY INTERVAL '1 hour'")
    db.execute("INSERT INTO a VALUES (3, '2024-07-02 03:00+00', 0.3)")
    db.execute("ADVANCE CLOCK BY INTERVAL '1 hour'")
    db.execute("DELETE FROM a WHERE id = 1")
    assert db.execute("VERIFY MATERIALIZED VIEW m").fetchall() == []
    db.engine.past.starts.clear()
    with pytest.raises(FeatureNotSupported, match="now\\(\\) as of when each row came"):
        db.execute("VERIFY MATERIALIZED VIEW m")
    db.execute("CREATE MATERIALIZED VIEW w AS SELECT id FROM a WHERE tz > now() - INTERVAL '1 day'")
    assert db.execute("VERIFY MATERIALIZED VIEW w").fetchall() == []


def delta(*rows: tuple[int, float | None, int]) -> Delta:
    batch = pa.record_batch(
        [pa.array([r[0] for r in rows], pa.int32()), pa.array([r[1] for r in rows], pa.float64())],
        names=["c0", "c1"],
    )
    return Delta(batch, np.array([r[2] for r in rows], np.int64))


@pytest.mark.parametrize(("given", "left"), [
    ([(1, 0.1 + 0.2, 1), (1, 0.3, -1)], []),
    ([(1, 0.3, 2), (1, 0.1 + 0.2, -1)], [(1, 0.3, 1)]),
    ([(1, 0.3, 1), (2, 0.3, -1)], [(1, 0.3, 1), (2, 0.3, -1)]),
    ([(1, 0.3, 1), (1, 0.31, -1)], [(1, 0.3, 1), (1, 0.31, -1)]),
    ([(1, None, 1), (1, 0.0, -1)], [(1, None, 1), (1, 0.0, -1)]),
    ([(1, float("inf"), 1), (1, 1e300, -1)], [(1, float("inf"), 1), (1, 1e300, -1)]),
    ([(1, 1.0, 1), (1, 2.0, 1), (1, 2.0 + 1e-14, -1)], [(1, 1.0, 1)]),
])  # fmt: skip
def test_only_rounding_cancels(given, left):
    schema = Schema.of(("k", INTEGER), ("x", DOUBLE))
    found = without_rounding(delta(*given), schema)
    rows = list(zip(*(c.to_pylist() for c in found.batch.columns), strict=True))
    assert [(*r, w) for r, w in zip(rows, found.weights.tolist(), strict=True)] == left


def test_aggregates_that_show_the_order_of_arrival_are_verified_by_arrival(
    db: streamsql.Database,
) -> None:
    n = 300_000  # more than DuckDB reads with one thread
    db.execute("CREATE TABLE arrivals (id INT PRIMARY KEY, k INT, v INT)")
    ids = pa.array(range(n), pa.int32())
    columns = {"id": ids, "k": pc.cast(pc.bit_wise_and(ids, 1), pa.int32()), "v": ids}
    db.insert("arrivals", pa.table(columns))
    db.execute(
        "CREATE MATERIALIZED VIEW o AS SELECT k, array_agg(v) AS a, first_value(v) AS f FROM arrivals GROUP BY k"
    )
    db.execute("UPDATE arrivals SET v = -1 WHERE id = 4")
    assert db.execute("VERIFY MATERIALIZED VIEW o").fetchall() == []
    assert db.execute("SELECT a[1:3], a[150000] FROM o WHERE k = 0").fetchall() == [([0, 2, 6], -1)]


def test_a_list_by_arrival_follows_updates_of_what_it_does_not_show(db):
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, x INT, s TEXT)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT array_agg(s) AS l FROM t")
    db.execute("INSERT INTO t VALUES (1, 1, 'a'), (2, 1, 'b'), (3, 1, 'c')")

    def same():
        assert (
            db.execute("SELECT l FROM v").fetchall()
            == db.execute("SELECT array_agg(s) FROM t").fetchall()
        )
        assert db.execute("VERIFY MATERIALIZED VIEW v").fetchall() == []

    for change in (
        "UPDATE t SET x = 1 WHERE id = 1",
        "UPDATE t SET x = 2 WHERE id = 2",
        "UPDATE t SET x = 3 WHERE id <> 2",
        "INSERT INTO t VALUES (3, 1, 'c') ON CONFLICT (id) DO UPDATE SET x = excluded.x",
        "BEGIN; UPDATE t SET x = 5 WHERE id = 2; UPDATE t SET x = 6 WHERE id = 1; COMMIT",
        "BEGIN; DELETE FROM t WHERE id = 3; INSERT INTO t VALUES (3, 0, 'c'); COMMIT",
    ):
        db.execute(change)
        same()
    db.execute("UPDATE t SET x = 0")
    assert db.execute("VERIFY MATERIALIZED VIEW v").fetchall() == []


CANCELS = (
    "(1, NULL, 1e16), (2, NULL, 1), (3, NULL, -1e16), (4, NULL, 1e200), (5, NULL, 1), "
    "(6, NULL, -1e200), (7, NULL, 1e308), (8, NULL, 1e308), (9, NULL, -1e308)"
)


@pytest.mark.parametrize("query", [
    "SELECT id % 3 AS k, sum(x) AS s, avg(x) AS a FROM a GROUP BY 1",
    "SELECT (id - 1) / 3 AS k, sum(x) AS s, avg(x) AS a FROM a GROUP BY 1",
    "SELECT (id - 1) / 3 AS k, sum(DISTINCT x) FILTER (WHERE id < 7) AS s FROM a GROUP BY 1",
    "SELECT id, sum(x) OVER (ORDER BY id ROWS 1 PRECEDING) AS s FROM a WHERE id < 7",
    "SELECT id, avg(x) OVER (ORDER BY id) AS s FROM a WHERE id < 7",
])  # fmt: skip
def test_what_is_left_of_large_numbers_that_cancel(db, query):
    """DuckDB adds floats up in some order, the view's sums are exact; a lost row is still found."""
    db.execute(f"CREATE MATERIALIZED VIEW m AS {query}")
    db.execute("DELETE FROM a")
    db.execute(f"INSERT INTO a VALUES {CANCELS}")
    assert db.execute("VERIFY MATERIALIZED VIEW m").fetchall() == []
    view = next(iter(db.engine.views.values()))
    right = view.contents()
    view.store.clear()
    view.store.apply(right.take(np.arange(1, right.num_rows)))
    assert [w for w, _ in db.execute("VERIFY MATERIALIZED VIEW m").fetchall()] == [-1]


@pytest.mark.parametrize(("values", "total"), [
    ([1e16, 1.0, -1e16, None], 1.0),
    ([1e308, 1e308, -1e308], 1e308),
    ([None], None),
    ([], None),
    (None, None),
    ([float("inf"), 1.0], float("inf")),
])  # fmt: skip
def test_exact_sums_of_lists(values, total):
    lists = pa.array([values], pa.list_(pa.float64()))
    call = KernelCall(1, DOUBLE, (array_of(DOUBLE),), 0, "UTC")
    assert exact_sum(call, lists).to_pylist() == [total]
    assert call.failures == []
