"""OVER over the tables of `shapes`: both sides understand these texts alike.

Frames of ROWS and picks of one row have an ORDER BY in which no two rows are equal.
"""

from __future__ import annotations

from tests.oracle.shapes import Shape


def over(name: str, calls: str, window: str, source: str = "t") -> Shape:
    """id and some calls, in which `w` stands for the window."""
    return Shape(f"over_{name}", f"SELECT id, {calls} FROM {source} WINDOW w AS ({window})")


OVER_SHAPES: tuple[Shape, ...] = (
    # --- neighbours
    over("lag", "lag(v) OVER w AS a, lag(g, 2, 'none') OVER w AS b", "PARTITION BY k ORDER BY ts, id"),
    over("lead", "lead(v) OVER w AS a, lead(ts, 3) OVER w AS b", "ORDER BY v DESC, id"),
    over("lag_lead_default", "lag(v, 1, id) OVER w AS a, lead(v, 1, 0) OVER w AS b", "PARTITION BY g ORDER BY id"),
    over("lag_ignoring_nulls", "lag(v IGNORE NULLS) OVER w AS a", "PARTITION BY k ORDER BY id"),
    over("difference", "v - lag(v) OVER w AS d, extract(epoch FROM ts - lag(ts) OVER w) AS e", "PARTITION BY k ORDER BY ts NULLS FIRST, id"),
    # --- numbers
    over("row_number", "row_number() OVER w AS n", "PARTITION BY k ORDER BY v DESC NULLS LAST, id"),
    over("ranks", "rank() OVER w AS r, dense_rank() OVER w AS d", "PARTITION BY k ORDER BY v"),
    over("ranks_of_all", "rank() OVER w AS r, dense_rank() OVER w AS d", "ORDER BY g DESC, v"),
    over("distribution", "percent_rank() OVER w AS p, cume_dist() OVER w AS c", "PARTITION BY k ORDER BY v"),
    over("ntile", "ntile(3) OVER w AS n", "ORDER BY v, id"),
    # --- ends of frames
    over("first_last", "first_value(id) OVER w AS a, last_value(id) OVER w AS b", "PARTITION BY k ORDER BY v, id"),
    over("last_of_all", "last_value(id) OVER w AS b", "PARTITION BY k ORDER BY ts, id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"),
    over("nth", "nth_value(id, 2) OVER w AS a", "ORDER BY ts DESC, id ROWS BETWEEN 3 PRECEDING AND 1 FOLLOWING"),
    # --- aggregates: ROWS
    over("running", "sum(v) OVER w AS s, count(*) OVER w AS n, max(v) OVER w AS m", "PARTITION BY k ORDER BY id ROWS UNBOUNDED PRECEDING"),
    over("moving_average", "avg(v) OVER w AS a, stddev_samp(v) OVER w AS d", "ORDER BY id ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING"),
    over("moving_extremes", "min(v) OVER w AS lo, max(g) OVER w AS hi", "PARTITION BY g ORDER BY v, id ROWS BETWEEN 3 PRECEDING AND CURRENT ROW"),
    over("behind", "sum(v) OVER w AS s", "ORDER BY v, id ROWS BETWEEN 4 PRECEDING AND 2 PRECEDING"),
    over("ahead", "sum(v) OVER w AS s, min(v) OVER w AS m", "ORDER BY v, id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"),
    over("others", "sum(v) OVER w AS s", "PARTITION BY k ORDER BY id ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING EXCLUDE CURRENT ROW"),
    # --- aggregates: RANGE and GROUPS
    over("default_frame", "sum(v) OVER w AS s, count(*) OVER w AS n", "PARTITION BY k ORDER BY v"),
    over("range_values", "count(*) OVER w AS n, sum(v) OVER w AS s", "ORDER BY v RANGE BETWEEN 1 PRECEDING AND 2 FOLLOWING"),
    over("range_values_down", "count(*) OVER w AS n, max(id) OVER w AS s", "PARTITION BY k ORDER BY v DESC RANGE BETWEEN 2 PRECEDING AND CURRENT ROW"),
    over("range_time", "count(*) OVER w AS n, avg(v) OVER w AS a", "PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '1 minute' PRECEDING AND CURRENT ROW"),
    over("range_time_around", "max(v) OVER w AS m", "ORDER BY ts RANGE BETWEEN INTERVAL '30 seconds' PRECEDING AND INTERVAL '30 seconds' FOLLOWING"),
    over("groups", "count(*) OVER w AS n, sum(v) OVER w AS s", "PARTITION BY g ORDER BY k GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING"),
    over("groups_ties", "sum(v) OVER w AS s", "ORDER BY k GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES"),
    over("range_without_group", "sum(v) OVER w AS s", "ORDER BY k RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE GROUP"),
    over("whole_partition", "sum(v) OVER w AS s, v * 100.0 / sum(v + 1) OVER w AS p", "PARTITION BY k"),
    over("filtered", "count(*) FILTER (WHERE v > 3) OVER w AS n, sum(v) FILTER (WHERE g = 'a') OVER w AS s", "PARTITION BY k ORDER BY id"),
    over("truth", "bool_and(v > 2) OVER w AS ba, bool_or(v > 7) OVER w AS bo", "PARTITION BY k ORDER BY id ROWS 2 PRECEDING"),
    # --- around other operators
    Shape(
        "over_three_orders",
        "SELECT id, lag(v) OVER (PARTITION BY k ORDER BY id) AS a, rank() OVER (ORDER BY v) AS b, "
        "sum(v) OVER (PARTITION BY g ORDER BY ts, id ROWS 1 PRECEDING) AS c FROM t",
    ),
    Shape("over_duplicates", "SELECT k, w, sum(w) OVER (PARTITION BY k ORDER BY w) AS s FROM u"),
    Shape("over_qualify", "SELECT id, v FROM t QUALIFY v > lag(v) OVER (PARTITION BY k ORDER BY id)"),
    # --- as in TPC-DS: share of a class (q12, q20, q98), month over month (q47, q57), running totals (q51), ranks in a hierarchy (q36, q70, q86)
    Shape(
        "over_share_of_class",
        "SELECT k, g, sum(v) AS s, sum(v) * 100.0 / nullif(sum(sum(v)) OVER (PARTITION BY k), 0) AS p FROM t GROUP BY k, g",
    ),
    Shape(
        "over_before_and_after",
        "SELECT * FROM (SELECT k, m, s, avg(s) OVER (PARTITION BY k) AS a, lag(s) OVER (PARTITION BY k ORDER BY m) AS p, "
        "lead(s) OVER (PARTITION BY k ORDER BY m) AS n FROM (SELECT k, date_trunc('minute', ts) AS m, sum(v) AS s FROM t "
        "WHERE ts IS NOT NULL GROUP BY k, date_trunc('minute', ts)) x) y WHERE s > a",
    ),
    Shape(
        "over_cumulative",
        "SELECT x.k, x.m, max(x.s) OVER (PARTITION BY x.k ORDER BY x.m ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS c "
        "FROM (SELECT k, date_trunc('minute', ts) AS m, sum(sum(v)) OVER (PARTITION BY k ORDER BY date_trunc('minute', ts) "
        "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS s FROM t WHERE ts IS NOT NULL GROUP BY k, date_trunc('minute', ts)) x",
    ),
    Shape(
        "over_rank_in_hierarchy",
        "SELECT k, g, sum(v) AS s, grouping(k) + grouping(g) AS l, rank() OVER (PARTITION BY grouping(k) + grouping(g), "
        "CASE WHEN grouping(g) = 0 THEN k END ORDER BY sum(v) DESC) AS r FROM t GROUP BY ROLLUP (k, g)",
    ),
    # --- as in Nexmark: the average of a seller's last ten winning bids (q6)
    Shape(
        "over_last_ten",
        "SELECT k, id, avg(v) OVER (PARTITION BY k ORDER BY ts, id ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS a FROM "
        "(SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY g, k ORDER BY v DESC NULLS LAST, id) AS rn FROM t) x WHERE rn <= 1) y",
    ),
)  # fmt: skip
