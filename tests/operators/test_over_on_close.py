"""OVER under EMIT ON WINDOW CLOSE: each row once, when its frames are behind the watermark; state that is freed."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter

import duckdb
import pytest

from streamsql.core.errors import FeatureNotSupported
from streamsql.operators.over import Over
from streamsql.runtime.explain import explain
from tests.operators.harness import Row, View, view_of
from tests.operators.test_on_close import ON_CLOSE, at, table

TOTAL = "ts, k, v"
BY_K = "PARTITION BY k ORDER BY ts, v"
CALLS = (
    "lag(v) OVER w AS a, lag(v, 3, 0) OVER w AS b, sum(v) OVER w AS c, row_number() OVER w AS d, "
    "max(v) OVER w AS e, first_value(v) OVER w AS f, nth_value(v, 3) OVER w AS g"
)
LOOKING_BACK = {
    "neighbours and running": (CALLS, BY_K),
    "over all rows": (CALLS, f"ORDER BY {TOTAL}"),
    "ranks": ("rank() OVER w AS a, dense_rank() OVER w AS b", "PARTITION BY k ORDER BY ts"),
    "rows": ("sum(v) OVER w AS a, min(v) OVER w AS b", f"{BY_K} ROWS 2 PRECEDING"),
    "rows behind": ("sum(v) OVER w AS a, last_value(v) OVER w AS b", f"{BY_K} ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING"),
    "rows without itself": ("sum(v) OVER w AS a", f"{BY_K} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW"),
    "range": ("sum(v) OVER w AS a, min(v) OVER w AS b", "PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '9 seconds' PRECEDING AND CURRENT ROW"),
    "range behind": ("count(*) OVER w AS a", "ORDER BY ts RANGE BETWEEN INTERVAL '9 seconds' PRECEDING AND INTERVAL '3 seconds' PRECEDING"),
    "range running behind": ("sum(v) OVER w AS a", "ORDER BY ts RANGE BETWEEN UNBOUNDED PRECEDING AND INTERVAL '3 seconds' PRECEDING"),
    "range of months": ("count(*) OVER w AS a", "ORDER BY ts RANGE BETWEEN INTERVAL '1 month' PRECEDING AND CURRENT ROW"),
    "groups": ("sum(v) OVER w AS a", "PARTITION BY k ORDER BY ts GROUPS BETWEEN 2 PRECEDING AND CURRENT ROW"),
    "groups behind": ("sum(v) OVER w AS a", "PARTITION BY k ORDER BY ts GROUPS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING"),
    "nulls ignored": ("lag(v IGNORE NULLS) OVER w AS a", BY_K),
}  # fmt: skip
WAITING = {
    "lead": ("lead(v) OVER w AS a", BY_K, ("rows", 1)),
    "lead of all": ("lead(v, 2) OVER w AS a, lag(v) OVER w AS b", f"ORDER BY {TOTAL}", ("rows", 2)),
    "rows around": ("sum(v) OVER w AS a", f"ORDER BY {TOTAL} ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING", ("rows", 2)),
    "running ahead": ("sum(v) OVER w AS a, max(v) OVER w AS b", f"{BY_K} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING", ("rows", 1)),
    "range around": ("sum(v) OVER w AS a", "PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '3 seconds' PRECEDING AND INTERVAL '6 seconds' FOLLOWING", ("range", 6)),
    "range ahead": ("max(v) OVER w AS a", "PARTITION BY k ORDER BY ts RANGE BETWEEN UNBOUNDED PRECEDING AND INTERVAL '6 seconds' FOLLOWING", ("range", 6)),
    "groups around": ("sum(v) OVER w AS a", "PARTITION BY k ORDER BY ts GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING", ("groups", 1)),
}  # fmt: skip
ALL = {**{n: (c, w, None) for n, (c, w) in LOOKING_BACK.items()}, **WAITING}


def query(name: str, source: str = "t0") -> str:
    calls, window, _ = ALL[name]
    return f"SELECT *, {calls} FROM {source} WINDOW w AS ({window})"


def over(view: View) -> Over:
    (found,) = [n.operator for n in view.circuit if isinstance(n.operator, Over)]
    return found


def arrivals(seed: int, n: int = 18) -> list[Row]:
    """Distinct rows, somewhat out of order."""
    rng = random.Random(seed)
    rows = list(dict.fromkeys(table().random_row(rng) for _ in range(n)))
    rows.sort(key=lambda r: r[0] + dt.timedelta(seconds=rng.choice([0, 0, 4, 12, 30])))
    return rows


class Model:
    """What has been given out, by DuckDB over the rows that were on time."""

    def __init__(self, name: str, late_s: int) -> None:
        self.name, self.late = name, dt.timedelta(seconds=late_s)
        self.db = duckdb.connect()
        self.db.execute("CREATE TABLE t (c0 TIMESTAMP, c1 INT, c2 INT)")
        self.watermark: dt.datetime | None = None

    def insert(self, row: Row) -> None:
        if self.watermark is None or row[0] >= self.watermark - self.late:
            self.db.execute("INSERT INTO t VALUES (?, ?, ?)", row)
        moved = row[0] - dt.timedelta(seconds=5)
        self.watermark = moved if self.watermark is None else max(moved, self.watermark)

    def given(self) -> Counter[Row]:
        assert self.watermark is not None
        border = self.watermark - self.late
        _, window, waits = ALL[self.name]
        behind, final = "1", "true"
        order = window.split(" ROWS")[0].split(" GROUPS")[0]
        if waits is not None and waits[0] == "rows":
            behind, final = f"lead(1, {waits[1]}) OVER ({order})", "z IS NOT NULL"
        elif waits is not None and waits[0] == "groups":
            frame = f"GROUPS BETWEEN {waits[1]} FOLLOWING AND {waits[1]} FOLLOWING"
            behind, final = f"count(*) OVER ({order} {frame})", "z > 0"
        elif waits is not None:
            final = f"ts + INTERVAL '{waits[1]} seconds' < TIMESTAMP '{border}'"
        source = f"(SELECT c0 AS ts, c1 AS k, c2 AS v FROM t WHERE c0 < TIMESTAMP '{border}')"
        inner = query(self.name, source).replace(" FROM ", f", {behind} AS z FROM ", 1)
        sql = f"SELECT * EXCLUDE (z) FROM ({inner}) WHERE {final}"
        return Counter(self.db.execute(sql).fetchall())


@pytest.mark.parametrize("name", ALL)
def test_what_is_given_out_is_the_query_over_final_rows(name: str) -> None:
    seed = len(name)
    for size, restarts, late_s in ((1, False, 0), (5, True, 7)):
        view = view_of(query(name), [table(late_s=late_s)], ON_CLOSE)
        assert over(view).final is not None
        model, rows = Model(name, late_s), arrivals(seed)
        for start in range(0, len(rows), size):
            if restarts:
                view.restart()
            for row in rows[start : start + size]:
                model.insert(row)
            out = view.insert(*rows[start : start + size])
            assert (out.weights_or_ones() > 0).all()
            assert view.output == model.given(), (name, size, start)
        assert view.compiled.append_only


@pytest.mark.parametrize("name", ALL)
def test_state_of_a_long_stream_stays_small(name: str) -> None:
    view = view_of(query(name), [table()], ON_CLOSE)
    sizes = []
    for start in range(0, 1000, 100):
        view.insert(*[(at(3 * (start + i)), 1 + i % 2, (start + i) % 7) for i in range(100)])
        sizes.append(over(view).state_rows())
    if name in ("nulls ignored", "rows without itself", "range of months"):
        assert sizes[-1] > 990
    else:
        assert max(sizes) <= 20


def test_time_alone_frees_rows_and_makes_them_final() -> None:
    view = view_of(query("range around"), [table()], ON_CLOSE)
    view.insert((at(0), 1, 1), (at(2), 1, 2))
    view.insert((at(13), 2, 0))
    assert view.output == {(at(0), 1, 1, 3): 1}
    assert over(view).state_rows() == 2
    view.insert((at(13.5), 2, 0))
    assert view.output == {(at(0), 1, 1, 3): 1, (at(2), 1, 2, 3): 1}
    assert over(view).state_rows() == 0


def test_whole_windows_close_with_all_their_rows() -> None:
    sql = (
        "SELECT window_end, v, lead(v) OVER w AS n, percent_rank() OVER w AS p FROM TUMBLE(t0, ts, "
        "INTERVAL '10 seconds') WINDOW w AS (PARTITION BY window_start, window_end ORDER BY v)"
    )
    view = view_of(sql, [table()], ON_CLOSE)
    view.insert((at(9), 1, 3), (at(1), 1, 1), (at(4), 1, 2), (at(11), 1, 5))
    assert not view.output
    view.insert((at(15), 1, 4))
    assert view.output == {
        (at(10), 1, 2, 0.0): 1, (at(10), 2, 3, 0.5): 1, (at(10), 3, None, 1.0): 1
    }  # fmt: skip
    assert over(view).state_rows() == 0


def test_two_orders_of_which_one_waits() -> None:
    sql = (
        "SELECT v, lead(v) OVER (PARTITION BY k ORDER BY ts) AS n, "
        "row_number() OVER (ORDER BY ts) AS r FROM t0"
    )
    view = view_of(sql, [table()], ON_CLOSE)
    view.insert((at(3), 1, 7), (at(1), 2, 5), (at(5), 2, 6))
    view.insert((at(100), 1, 0))
    assert view.output == {(5, 6, 1): 1}
    view.insert((at(200), 1, 0))
    assert view.output == {(5, 6, 1): 1, (7, 0, 2): 1}


@pytest.mark.parametrize(
    "call",
    [
        "ntile(2) OVER (ORDER BY ts)",
        "sum(v) OVER (ORDER BY v)",
        "sum(v) OVER (ORDER BY ts DESC)",
        "sum(v) OVER ()",
        "last_value(v) OVER (ORDER BY ts ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
        "lead(v) OVER (ORDER BY ts), lead(v) OVER (PARTITION BY k ORDER BY ts)",
    ],
)
def test_results_that_are_never_final_are_refused(call: str) -> None:
    with pytest.raises(FeatureNotSupported, match="frames that end"):
        view_of(f"SELECT {call} FROM t0", [table()], ON_CLOSE)


def test_explain_says_what_is_kept_and_when_it_goes() -> None:
    def text(name: str) -> str:
        return "\n".join(explain(view_of(query(name), [table()], ON_CLOSE).compiled))

    freed = (
        "keeps the rows that later frames need; freed when the watermark has passed their frames"
    )
    assert freed in text("range")
    assert "keeps every row; freed never" in text("nulls ignored")
