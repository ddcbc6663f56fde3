"""Shapes of ordered and holistic aggregates, grouping sets, recursion and set-returning functions."""

from __future__ import annotations

from .batch import SESSIONS, Shape, hop, tumble

R = "WITH RECURSIVE r"
AGGREGATES: tuple[Shape, ...] = (
    Shape(
        "array_agg_ordered",
        "SELECT k, array_agg(v ORDER BY id) AS a FROM t GROUP BY k",
        "SELECT k, list(v ORDER BY id) FROM t GROUP BY k",
    ),
    Shape(
        "array_agg_desc",
        "SELECT g, array_agg(id ORDER BY v DESC NULLS LAST, id) AS a FROM t GROUP BY g",
        "SELECT g, list(id ORDER BY v DESC NULLS LAST, id) FROM t GROUP BY g",
    ),
    Shape(
        "array_agg_distinct",
        "SELECT k, array_agg(DISTINCT g) AS a FROM t GROUP BY k",
        "SELECT k, list(DISTINCT g ORDER BY g NULLS LAST) FROM t GROUP BY k",
    ),
    Shape(
        "array_agg_filter",
        "SELECT k, array_agg(id ORDER BY id) FILTER (WHERE v > 3) AS a FROM t GROUP BY k",
        "SELECT k, list(id ORDER BY id) FILTER (WHERE v > 3) FROM t GROUP BY k",
    ),
    Shape(
        "array_agg_all",
        "SELECT array_agg(w ORDER BY w, k) AS a FROM u",
        "SELECT list(w ORDER BY w NULLS LAST, k NULLS LAST) FROM u",
    ),
    Shape(
        "string_agg_distinct",
        "SELECT k, string_agg(DISTINCT s, '-') AS a FROM u GROUP BY k",
        "SELECT k, string_agg(DISTINCT s, '-' ORDER BY s) FROM u GROUP BY k",
    ),
    Shape(
        "string_agg_of_duplicates",
        "SELECT k, string_agg(s, '' ORDER BY s DESC) AS a FROM u GROUP BY k",
    ),
    Shape(
        "percentile_cont",
        "SELECT k, percentile_cont(0.25) WITHIN GROUP (ORDER BY v) AS p FROM t GROUP BY k",
        "SELECT k, quantile_cont(v::double, 0.25::double) FROM t GROUP BY k",
    ),
    Shape(
        "percentile_disc",
        "SELECT k, percentile_disc(0.75) WITHIN GROUP (ORDER BY g) AS p FROM t GROUP BY k",
        "SELECT k, quantile_disc(g, 0.75::double) FROM t GROUP BY k",
    ),
    Shape(
        "percentile_array",
        "SELECT g, percentile_disc(ARRAY[0, 0.5, 1]) WITHIN GROUP (ORDER BY v) AS p FROM t GROUP BY g",
        "SELECT g, CASE WHEN count(v) > 0 THEN [min(v), quantile_disc(v, 0.5::double), max(v)] END FROM t GROUP BY g",
    ),
    Shape(
        "median",
        "SELECT k, median(w) AS m FROM u GROUP BY k",
        "SELECT k, median(w::double) FROM u GROUP BY k",
    ),
    Shape(
        "mode",
        "SELECT k, mode() WITHIN GROUP (ORDER BY w) AS m FROM u GROUP BY k",
        "SELECT k, mode(w ORDER BY w) FROM u GROUP BY k",
    ),
    Shape(
        "rank_within",
        "SELECT k, rank(4) WITHIN GROUP (ORDER BY v) AS a, rank(4) WITHIN GROUP (ORDER BY v DESC) AS d, "
        "dense_rank(4) WITHIN GROUP (ORDER BY v NULLS FIRST) AS s FROM t GROUP BY k",
        "SELECT k, 1 + count(*) FILTER (WHERE v < 4), 1 + count(*) FILTER (WHERE v > 4 OR v IS NULL), "
        "1 + count(DISTINCT v) FILTER (WHERE v < 4) + max(CASE WHEN v IS NULL THEN 1 ELSE 0 END) "
        "FROM t GROUP BY k",
    ),
    Shape(
        "rank_within_two_keys",
        "SELECT g, rank(4, 3) WITHIN GROUP (ORDER BY v DESC, id) AS r, "
        "dense_rank(2, 'b') WITHIN GROUP (ORDER BY k, g) FILTER (WHERE v > 1) AS d FROM t GROUP BY g",
        "SELECT g, 1 + count(*) FILTER (WHERE v > 4 OR v IS NULL OR (v = 4 AND id < 3)), "
        "1 + count(DISTINCT CASE WHEN v > 1 AND (k < 2 OR (k = 2 AND g < 'b')) "
        "THEN coalesce(k::text, '-') || coalesce('=' || g, '-') END) FROM t GROUP BY g",
    ),
    Shape(
        "percent_rank_within",
        "SELECT percent_rank(3) WITHIN GROUP (ORDER BY v) AS p, "
        "cume_dist(3) WITHIN GROUP (ORDER BY v) AS c, rank(NULL) WITHIN GROUP (ORDER BY v) AS n FROM t",
        "SELECT CASE WHEN count(*) = 0 THEN 0 ELSE count(*) FILTER (WHERE v < 3)::double / count(*)::double "
        "END, (1 + count(*) FILTER (WHERE v <= 3))::double / (1 + count(*))::double, 1 + count(v) FROM t",
    ),
    Shape(
        "rank_of_a_grouped_column",
        "SELECT k, rank(k) WITHIN GROUP (ORDER BY v) AS r FROM t GROUP BY k",
        "SELECT k, 1 + count(*) FILTER (WHERE v < k OR (k IS NULL AND v IS NOT NULL)) FROM t GROUP BY k",
    ),
    Shape(
        "count_of_whole_rows",
        "SELECT t.k, count(u) AS n, count(u.*) AS m FROM t LEFT JOIN u ON u.k = t.k GROUP BY t.k",
        "SELECT t.k, count(u.k), count(u.k) FROM t LEFT JOIN u ON u.k = t.k GROUP BY t.k",
    ),
    Shape(
        "count_of_distinct_rows",
        "SELECT count(DISTINCT u) AS n, count(u.*) AS m FROM u",
        "SELECT (SELECT count(*) FROM (SELECT DISTINCT * FROM u)), (SELECT count(*) FROM u)",
    ),
    Shape(
        "first_last",
        "SELECT k, first_value(v ORDER BY id) AS a, last_value(v ORDER BY id) AS b FROM t GROUP BY k",
        "SELECT k, first(v ORDER BY id), last(v ORDER BY id) FROM t GROUP BY k",
    ),
    Shape(
        "max_by",
        "SELECT k, max_by(id, v * 1000 + id) AS a, min_by(id, v * 1000 + id) AS b FROM t GROUP BY k",
    ),
    Shape(
        "bitwise", "SELECT k, bit_and(v) AS a, bit_or(v) AS o, bit_xor(v) AS x FROM t GROUP BY k"
    ),
    Shape(
        "covariance",
        "SELECT k, covar_pop(v, id) AS p, covar_samp(v, id) AS s, regr_count(v, id) AS n FROM t GROUP BY k",
    ),
    Shape(
        "slope",
        "SELECT g, regr_slope(v, id) AS b, regr_avgx(v, id) AS x, regr_sxx(v, id) AS s FROM t GROUP BY g",
        "SELECT g, CASE WHEN regr_sxx(v, id) <> 0 THEN regr_slope(v, id) END, regr_avgx(v, id), regr_sxx(v, id) FROM t GROUP BY g",
    ),
    Shape(
        "approx_count",
        "SELECT k, approx_count_distinct(w) AS n FROM u GROUP BY k",
        "SELECT k, count(DISTINCT w) FROM u GROUP BY k",
    ),
    Shape(
        "mixed",
        "SELECT k, count(*) AS n, sum(v) AS s, array_agg(id ORDER BY id) AS a, max(g) AS m, bit_or(v) AS o FROM t GROUP BY k",
        "SELECT k, count(*), sum(v), list(id ORDER BY id), max(g), bit_or(v) FROM t GROUP BY k",
    ),
    Shape(
        "tumble_ordered",
        "SELECT window_start, array_agg(id ORDER BY v, id) AS a FROM TUMBLE(t, ts, INTERVAL '1 minute') GROUP BY window_start",
        f"SELECT window_start, list(id ORDER BY v NULLS LAST, id) FROM {tumble(60)} GROUP BY window_start",
    ),
    Shape(
        "hop_mode",
        "SELECT window_start, mode() WITHIN GROUP (ORDER BY k) AS m FROM HOP(t, ts, INTERVAL '20 seconds', INTERVAL '1 minute') GROUP BY window_start, window_end",
        f"SELECT window_start, mode(k ORDER BY k) FROM {hop(20, 60)} GROUP BY window_start, window_end",
    ),
    Shape(
        "session_array",
        "SELECT window_start, window_end, k, array_agg(id ORDER BY id) AS a FROM SESSION(t PARTITION BY k, ts, INTERVAL '20 seconds') GROUP BY window_start, window_end, k",
        f"SELECT window_start, window_end, k, list(id ORDER BY id) FROM {SESSIONS} GROUP BY window_start, window_end, k",
    ),
)
GROUPINGS: tuple[Shape, ...] = (
    Shape(
        "cube_grouping",
        "SELECT k, g, grouping(k, g) AS x, count(*) AS n, sum(v) AS s FROM t GROUP BY CUBE (k, g)",
    ),
    Shape(
        "rollup_extremes", "SELECT k, g, min(v) AS lo, max(id) AS hi FROM t GROUP BY ROLLUP (k, g)"
    ),
    Shape("crossed_sets", "SELECT k, g, v, count(*) AS n FROM t GROUP BY k, ROLLUP (g), CUBE (v)"),
    Shape(
        "distinct_sets",
        "SELECT k, count(*) AS n FROM u GROUP BY DISTINCT ROLLUP (k), ROLLUP (k)",
        "SELECT k, count(*) AS n FROM u GROUP BY ROLLUP (k)",
    ),
    Shape(
        "empty_set",
        "SELECT count(*) AS n, sum(w) AS s FROM u WHERE w > 7 GROUP BY GROUPING SETS ((), ())",
        "SELECT count(*) AS n, sum(w) AS s FROM u WHERE w > 7 UNION ALL SELECT count(*) AS n, sum(w) AS s FROM u WHERE w > 7",
    ),
    Shape(
        "rollup_ordered",
        "SELECT k, g, array_agg(id ORDER BY id) AS a FROM t GROUP BY ROLLUP (k, g)",
        "SELECT k, g, list(id ORDER BY id) FROM t GROUP BY ROLLUP (k, g)",
    ),
)
RECURSIONS: tuple[Shape, ...] = (
    Shape(
        "reachable",
        f"{R}(n) AS (SELECT 1 UNION SELECT e.b FROM r JOIN e ON e.a = r.n) SELECT n FROM r",
    ),
    Shape(
        "recursion_depth",
        f"{R}(n, d) AS (SELECT a, 0 FROM e UNION ALL SELECT e.b, d + 1 FROM r JOIN e ON e.a = r.n WHERE d < 3) SELECT n, d FROM r",
    ),
    Shape(
        "shortest",
        f"{R}(n, d) AS (SELECT 0, 0 UNION SELECT e.b, d + 1 FROM r JOIN e ON e.a = r.n WHERE d < 5) SELECT n, min(d) AS d FROM r GROUP BY n",
    ),
    Shape(
        "components",
        f"{R}(n, m) AS (SELECT a, a FROM e UNION SELECT b, b FROM e UNION SELECT e.b, r.m FROM r JOIN e ON e.a = r.n) SELECT n, min(m) AS m FROM r GROUP BY n",
    ),
    Shape(
        "recursion_counted",
        f"{R}(n, g) AS (SELECT v, g FROM t WHERE v IS NOT NULL UNION ALL SELECT n - 3, g FROM r WHERE n > 2) SELECT g, count(*) AS c, sum(n) AS s FROM r GROUP BY g",
    ),
    Shape(
        "recursion_two_tables",
        f"{R}(k) AS (SELECT k FROM t UNION SELECT e.b FROM r JOIN e ON e.a = r.k JOIN u ON u.k = e.b) SELECT k FROM r",
    ),
    Shape(
        "recursion_anti",
        f"{R}(n) AS (SELECT a FROM e UNION SELECT e.b FROM r JOIN e ON e.a = r.n WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = e.b)) SELECT n FROM r",
    ),
    Shape(
        "recursion_joined",
        f"{R}(a, b) AS (SELECT a, b FROM e UNION SELECT r.a, e.b FROM r JOIN e ON r.b = e.a) SELECT t.id, r.b FROM t JOIN r ON r.a = t.k",
    ),
)
FUNCTIONS: tuple[Shape, ...] = (
    Shape(
        "unnest_in_select",
        "SELECT id, unnest(ARRAY[v, k, 7]) AS x FROM t",
        "SELECT id, unnest([v, k, 7]) AS x FROM t",
    ),
    Shape(
        "unnest_ordinality",
        "SELECT id, x, o FROM t, unnest(ARRAY[v, k]) WITH ORDINALITY AS f(x, o)",
        "SELECT id, v AS x, 1 AS o FROM t UNION ALL SELECT id, k, 2 FROM t",
    ),
    Shape(
        "unnest_several",
        "SELECT id, x, y FROM t, unnest(ARRAY[v, k], ARRAY[g]) AS f(x, y)",
        "SELECT id, v AS x, g AS y FROM t UNION ALL SELECT id, k, NULL FROM t",
    ),
    Shape(
        "series_of_times",
        "SELECT id, d FROM t, generate_series(ts, ts + INTERVAL '2 days', INTERVAL '1 day') AS f(d)",
        "SELECT id, unnest([ts, ts + INTERVAL '1 day', ts + INTERVAL '2 days']) AS d FROM t WHERE ts IS NOT NULL",
    ),
    Shape(
        "split",
        "SELECT k, x, count(*) AS n FROM u, string_to_table(s, 'b') AS f(x) GROUP BY k, x",
        "SELECT k, x, count(*) AS n FROM (SELECT k, unnest(string_split(s, 'b')) AS x FROM u WHERE s IS NOT NULL) q GROUP BY k, x",
    ),
)
AGGREGATE_SHAPES: tuple[Shape, ...] = (*AGGREGATES, *GROUPINGS, *RECURSIONS, *FUNCTIONS)
