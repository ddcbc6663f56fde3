"""Top-N in all spellings, OVER with its functions and frames: over the small tables."""

from __future__ import annotations

from ...oracle.batch import Shape
from ..harness import Stage
from .small import TABLES

TOP: dict[str, str] = {
    "limit": "SELECT id, v FROM t ORDER BY v DESC, id LIMIT 5",
    "limit_offset": "SELECT id, v FROM t ORDER BY v, id LIMIT 4 OFFSET 3",
    "offset_only": "SELECT id FROM t ORDER BY id OFFSET 50",
    "limit_null_last": "SELECT id, v FROM t ORDER BY v DESC NULLS LAST, id LIMIT 5",
    "limit_expression": "SELECT id FROM t ORDER BY v % 3, id LIMIT 6",
    "limit_all": "SELECT id FROM t ORDER BY id LIMIT ALL",
    "limit_zero": "SELECT id FROM t ORDER BY id LIMIT 0",
    "limit_aggregate": "SELECT k, sum(v) AS s FROM t GROUP BY k ORDER BY s DESC, k LIMIT 3",
    "limit_join": "SELECT t.id, u.id AS uid FROM t JOIN u ON t.k = u.k ORDER BY u.w DESC NULLS LAST, t.id, u.id LIMIT 4",
    "limit_union": "(SELECT id, v FROM t ORDER BY v DESC NULLS LAST, id LIMIT 2) UNION ALL (SELECT id, w FROM u ORDER BY w, id LIMIT 2)",
    "limit_duplicates": "SELECT k, w FROM p ORDER BY k, w LIMIT 9",
    "limit_text": "SELECT id, g FROM t ORDER BY g DESC, id LIMIT 7",
    "limit_in_subquery": "SELECT sum(v) AS s FROM (SELECT v FROM t ORDER BY v DESC NULLS LAST, id LIMIT 5) x",
    "fetch_first": "SELECT id FROM t ORDER BY x DESC NULLS LAST, id FETCH FIRST 3 ROWS ONLY",
    "row_number": "SELECT id, k, v FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY v DESC, id) AS rn FROM t) x WHERE rn <= 2",
    "row_number_shown": "SELECT id, k, rn FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY v DESC, id) AS rn FROM t) x WHERE rn <= 3",
    "row_number_between": "SELECT id, rn FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY v, id) AS rn FROM t) x WHERE rn BETWEEN 2 AND 3",
    "row_number_equal": "SELECT id, k FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY id) AS rn FROM t) x WHERE rn = 2",
    "row_number_global": "SELECT id FROM (SELECT *, row_number() OVER (ORDER BY v DESC, id) AS rn FROM t) x WHERE rn < 6",
    "row_number_and": "SELECT id FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY id) AS rn FROM t) x WHERE rn <= 4 AND v > 4",
    "row_number_two_keys": "SELECT id FROM (SELECT *, row_number() OVER (PARTITION BY k, g ORDER BY v DESC, id) AS rn FROM t) x WHERE rn = 1",
    "rank": "SELECT id, k, r FROM (SELECT *, rank() OVER (PARTITION BY k ORDER BY v) AS r FROM t) x WHERE r <= 2",
    "dense_rank": "SELECT id, k, r FROM (SELECT *, dense_rank() OVER (PARTITION BY k ORDER BY v DESC) AS r FROM t) x WHERE r <= 2",
    "dense_rank_global": "SELECT id, r FROM (SELECT *, dense_rank() OVER (ORDER BY v) AS r FROM t) x WHERE r <= 3",
    "qualify": "SELECT id, k FROM t QUALIFY row_number() OVER (PARTITION BY k ORDER BY v DESC, id) <= 2",
    "qualify_rank": "SELECT id, k FROM t WHERE b QUALIFY rank() OVER (PARTITION BY k ORDER BY v) = 1",
    "qualify_aggregate": "SELECT k, g, count(*) AS n FROM t GROUP BY k, g QUALIFY row_number() OVER (PARTITION BY k ORDER BY count(*) DESC, g) = 1",
    "distinct_on": "SELECT DISTINCT ON (k) k, id, v FROM t ORDER BY k, v DESC NULLS LAST, id",
    "distinct_on_two": "SELECT DISTINCT ON (k, b) k, b, id FROM t ORDER BY k, b, id DESC",
    "distinct_on_expression": "SELECT DISTINCT ON (v % 3) v % 3 AS r, id FROM t ORDER BY v % 3, id",
    "first_of_group": "SELECT id, k FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY ts, id) AS rn FROM t) x WHERE rn = 1",
    "last_of_group": "SELECT id, k FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY ts DESC, id DESC) AS rn FROM t) x WHERE rn = 1",
    "lateral": "SELECT q.k, l.id FROM (SELECT DISTINCT k FROM t) q, LATERAL (SELECT id FROM t WHERE t.k = q.k ORDER BY v DESC NULLS LAST, id LIMIT 2) l",
    "top_of_join": "SELECT id, uid FROM (SELECT t.id, u.id AS uid, row_number() OVER (PARTITION BY t.id ORDER BY u.w DESC, u.id) AS rn FROM t JOIN u ON t.k = u.k) x WHERE rn = 1",
    "top_of_aggregate": "SELECT k, g, s FROM (SELECT k, g, sum(v) AS s, row_number() OVER (PARTITION BY k ORDER BY sum(v) DESC, g) AS rn FROM t GROUP BY k, g) x WHERE rn = 1",
    "top_of_top": "SELECT k, max(v) AS m FROM (SELECT k, v FROM t ORDER BY v DESC NULLS LAST, id LIMIT 10) x GROUP BY k ORDER BY m DESC, k LIMIT 2",
    "join_of_top": "SELECT x.id, u.w FROM (SELECT * FROM t ORDER BY v DESC NULLS LAST, id LIMIT 4) x LEFT JOIN u ON u.k = x.k",
}  # fmt: skip

# name -> (function, needs an ORDER BY without ties)
FUNCTIONS: dict[str, str] = {
    "row_number": "row_number()", "rank": "rank()", "dense_rank": "dense_rank()",
    "percent_rank": "percent_rank()", "cume_dist": "cume_dist()", "ntile": "ntile(3)",
    "lag": "lag(v)", "lag_two": "lag(v, 2)", "lag_default": "lag(v, 1, -1)",
    "lead": "lead(g)", "lead_default": "lead(v, 2, 0)",
    "first_value": "first_value(v)", "last_value": "last_value(v)", "nth_value": "nth_value(v, 2)",
    "sum": "sum(v)", "avg": "avg(x)", "count": "count(g)", "min": "min(v)", "max": "max(g)",
    "bool_or": "bool_or(b)", "string_agg": "string_agg(g, ',')",
}  # fmt: skip
FRAMES: dict[str, str] = {
    "rows_before": "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
    "rows_around": "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "rows_after": "ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING",
    "rows_past": "ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING",
    "rows_rest": "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "rows_all": "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "range_default": "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "range_band": "RANGE BETWEEN 2 PRECEDING AND 2 FOLLOWING",
    "range_after": "RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING",
    "groups_around": "GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "groups_past": "GROUPS BETWEEN 2 PRECEDING AND CURRENT ROW",
    "exclude_current": "ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING EXCLUDE CURRENT ROW",
    "exclude_group": "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE GROUP",
    "exclude_ties": "GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES",
}  # fmt: skip
OVER: dict[str, str] = {
    **{
        f"fn_{n}": f"SELECT id, {f} OVER (PARTITION BY k ORDER BY id) AS x FROM t"
        for n, f in FUNCTIONS.items()
    },
    **{
        f"frame_{n}": f"SELECT id, sum(v) OVER w AS s, count(*) OVER w AS n, min(v) OVER w AS m "
        f"FROM t WINDOW w AS (PARTITION BY g ORDER BY id {f})"
        for n, f in FRAMES.items()
    },
    **{
        f"frame_v_{n}": f"SELECT id, sum(k) OVER w AS s, max(k) OVER w AS m FROM t "
        f"WINDOW w AS (PARTITION BY b ORDER BY v {f})"
        for n, f in FRAMES.items()
        if not n.startswith(("rows", "exclude_current"))
    },
    "ties_rank": "SELECT id, rank() OVER (PARTITION BY k ORDER BY v DESC) AS r, dense_rank() OVER (PARTITION BY k ORDER BY v DESC) AS q FROM t",
    "global_number": "SELECT id, row_number() OVER (ORDER BY v, id) AS rn FROM t",
    "global_total": "SELECT id, v, sum(v) OVER () AS s, count(*) OVER () AS n FROM t",
    "global_running": "SELECT id, sum(v) OVER (ORDER BY id) AS s FROM t",
    "partition_total": "SELECT id, v - avg(v) OVER (PARTITION BY k) AS a FROM t",
    "partition_share": "SELECT id, x / sum(x) OVER (PARTITION BY g) AS a FROM t WHERE x > 0",
    "range_time": "SELECT id, count(*) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '1 minute' PRECEDING AND CURRENT ROW) AS n FROM t WHERE ts IS NOT NULL",
    "range_time_after": "SELECT id, sum(v) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '30 seconds' PRECEDING AND INTERVAL '30 seconds' FOLLOWING) AS n FROM t WHERE ts IS NOT NULL",
    "range_numeric": "SELECT id, count(*) OVER (ORDER BY x RANGE BETWEEN 1.5 PRECEDING AND 0.5 FOLLOWING) AS n FROM t WHERE x IS NOT NULL",
    "nulls_first": "SELECT id, row_number() OVER (PARTITION BY k ORDER BY v NULLS FIRST, id) AS n FROM t",
    "filter": "SELECT id, count(*) FILTER (WHERE b) OVER (PARTITION BY k ORDER BY id) AS n FROM t",
    "two_windows": "SELECT id, sum(v) OVER (PARTITION BY k ORDER BY id) AS a, max(v) OVER (PARTITION BY g) AS c FROM t",
    "named": "SELECT id, lag(v) OVER w AS a, lead(v) OVER w AS c FROM t WINDOW w AS (PARTITION BY k ORDER BY id)",
    "over_aggregate": "SELECT k, sum(v) AS s, rank() OVER (ORDER BY sum(v) DESC, k) AS r FROM t GROUP BY k",
    "over_over": "SELECT id, sum(rn) OVER (ORDER BY id) AS s FROM (SELECT id, row_number() OVER (PARTITION BY k ORDER BY id) AS rn FROM t) x",
    "over_join": "SELECT t.id, u.id AS uid, row_number() OVER (PARTITION BY t.k ORDER BY t.id, u.id) AS n FROM t JOIN u ON t.k = u.k",
    "delta_above": "SELECT k, sum(d) AS s FROM (SELECT k, v - lag(v) OVER (PARTITION BY k ORDER BY id) AS d FROM t) x GROUP BY k",
    "gaps": "SELECT id FROM (SELECT id, v, lead(v) OVER (ORDER BY id) AS n FROM t) x WHERE n < v",
    "islands": "SELECT min(id) AS a, max(id) AS c, count(*) AS n FROM (SELECT id, b, id - row_number() OVER (PARTITION BY b ORDER BY id) AS part FROM t) x GROUP BY b, part",
    "duplicates": "SELECT k, w, count(*) OVER (PARTITION BY k) AS n, rank() OVER (PARTITION BY k ORDER BY w) AS r FROM p",
    "expression_order": "SELECT id, row_number() OVER (PARTITION BY v % 2 ORDER BY -id) AS n FROM t",
    "text_order": "SELECT id, first_value(id) OVER (PARTITION BY k ORDER BY g DESC, id) AS f FROM t",
    "distinct_over": "SELECT DISTINCT k, count(*) OVER (PARTITION BY k) AS n FROM t",
    "over_filter_above": "SELECT id FROM (SELECT id, v, max(v) OVER (PARTITION BY k) AS m FROM t) x WHERE v = m",
    "last_frame": "SELECT id, last_value(v) OVER (PARTITION BY k ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS l FROM t",
    "array_over": "SELECT id, array_agg(v) OVER (PARTITION BY k ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS a FROM t",
    "stddev_over": "SELECT id, stddev_pop(v) OVER (PARTITION BY k ORDER BY id ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS a FROM t",
}  # fmt: skip

STAGE_TOP = Stage("top_n", TABLES, tuple(Shape(f"top_{n}", sql) for n, sql in TOP.items()))
STAGE_OVER = Stage("over", TABLES, tuple(Shape(f"over_{n}", sql) for n, sql in OVER.items()))
