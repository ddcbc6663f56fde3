"""Query shapes over three small tables, each with the same question in DuckDB's own words.

    t(id INT PRIMARY KEY, k INT, g TEXT, v INT, ts TIMESTAMP)
    u(k INT, w INT, s TEXT)      duplicates are usual
    e(a INT, b INT)              edges

A shape whose text both sides understand alike is written once. Where the dialects differ (windows in FROM,
division), the second text is DuckDB SQL written by hand.
"""

from __future__ import annotations

from .batch import SESSIONS, Shape, hop, tumble

SHAPES: tuple[Shape, ...] = (
    # --- stateless
    Shape("project", "SELECT id, k + 1 AS k1, upper(g) AS g, v FROM t"),
    Shape("filter", "SELECT id, v FROM t WHERE v > 3 AND g IS NOT NULL"),
    Shape("filter_or_null", "SELECT id FROM t WHERE v > 5 OR k IS NULL"),
    Shape(
        "case",
        "SELECT id, CASE WHEN v > 5 THEN 'hi' WHEN v > 2 THEN 'mid' ELSE 'lo' END AS c FROM t",
    ),
    Shape("in_list", "SELECT id FROM t WHERE g IN ('a', 'b') AND v NOT IN (1, 2)"),
    Shape("between_like", "SELECT id, g FROM t WHERE v BETWEEN 2 AND 6 AND g LIKE 'a%'"),
    Shape("coalesce", "SELECT id, coalesce(g, 'none') AS g, nullif(v, 3) AS v FROM t"),
    Shape(
        "division",
        "SELECT id, v / 2 AS q, v % 3 AS r FROM t",
        "SELECT id, v // 2 AS q, v % 3 AS r FROM t",
    ),
    Shape("values", "SELECT * FROM (VALUES (1, 'x'), (2, 'y')) z(a, b)"),
    # --- aggregates
    Shape(
        "group_count_sum", "SELECT k, count(*) AS n, count(v) AS nv, sum(v) AS s FROM t GROUP BY k"
    ),
    Shape("group_text_key", "SELECT g, sum(v) AS s, avg(v) AS a FROM t GROUP BY g"),
    Shape(
        "group_min_max",
        "SELECT k, min(v) AS lo, max(v) AS hi, min(g) AS g0, max(ts) AS t1 FROM t GROUP BY k",
    ),
    Shape("group_two_keys", "SELECT k, g, count(*) AS n, max(id) AS m FROM t GROUP BY k, g"),
    Shape("group_expression", "SELECT v % 2 AS p, count(*) AS n FROM t GROUP BY v % 2"),
    Shape("global", "SELECT count(*) AS n, sum(v) AS s, min(v) AS lo, max(g) AS hi FROM t"),
    Shape("having", "SELECT k, sum(v) AS s FROM t GROUP BY k HAVING count(*) > 1"),
    Shape(
        "filter_clause",
        "SELECT k, count(*) FILTER (WHERE v > 3) AS n, sum(v) FILTER (WHERE g = 'a') AS s FROM t GROUP BY k",
    ),
    Shape(
        "count_distinct",
        "SELECT k, count(DISTINCT g) AS n, count(DISTINCT v) AS m FROM t GROUP BY k",
    ),
    Shape("sum_distinct", "SELECT g, sum(DISTINCT v) AS s FROM t GROUP BY g"),
    Shape(
        "bool_aggregates", "SELECT k, bool_and(v > 2) AS ba, bool_or(v > 7) AS bo FROM t GROUP BY k"
    ),
    Shape("stddev", "SELECT k, stddev_samp(v) AS sd, var_pop(v) AS vp FROM t GROUP BY k"),
    Shape("string_agg", "SELECT k, string_agg(g, ',' ORDER BY g, id) AS gs FROM t GROUP BY k"),
    Shape("rollup", "SELECT k, g, count(*) AS n FROM t GROUP BY ROLLUP (k, g)"),
    Shape("grouping_sets", "SELECT k, g, sum(v) AS s FROM t GROUP BY GROUPING SETS ((k), (g), ())"),
    Shape(
        "nested_aggregate",
        "SELECT n, count(*) AS m FROM (SELECT k, count(*) AS n FROM t GROUP BY k) x GROUP BY n",
    ),
    Shape("aggregate_of_duplicates", "SELECT k, count(*) AS n, sum(w) AS s FROM u GROUP BY k"),
    # --- distinct, set operations
    Shape("distinct", "SELECT DISTINCT k, g FROM t"),
    Shape("distinct_duplicates", "SELECT DISTINCT k FROM u"),
    Shape("union_all", "SELECT k FROM t UNION ALL SELECT k FROM u"),
    Shape("union", "SELECT k FROM t UNION SELECT k FROM u"),
    Shape("except", "SELECT k FROM t EXCEPT SELECT k FROM u"),
    Shape("except_all", "SELECT k FROM u EXCEPT ALL SELECT k FROM t"),
    Shape("intersect", "SELECT k FROM t INTERSECT SELECT k FROM u"),
    Shape("intersect_all", "SELECT k FROM t INTERSECT ALL SELECT k FROM u"),
    # --- joins
    Shape("inner_join", "SELECT t.id, u.w FROM t JOIN u ON t.k = u.k"),
    Shape("inner_join_residual", "SELECT t.id, u.w, u.s FROM t JOIN u ON t.k = u.k AND t.v > u.w"),
    Shape(
        "self_join", "SELECT a.id AS i, b.id AS j FROM t a JOIN t b ON a.k = b.k AND a.id < b.id"
    ),
    Shape("three_way", "SELECT t.id, u.w, e.b FROM t JOIN u ON t.k = u.k JOIN e ON e.a = u.w"),
    Shape(
        "join_aggregate",
        "SELECT t.g, sum(u.w) AS s, count(*) AS n FROM t JOIN u ON t.k = u.k GROUP BY t.g",
    ),
    Shape("left_join", "SELECT t.id, u.w FROM t LEFT JOIN u ON t.k = u.k"),
    Shape("left_join_filtered", "SELECT t.id, u.w FROM t LEFT JOIN u ON t.k = u.k AND u.w > 3"),
    Shape("right_join", "SELECT t.id, u.w, u.k FROM t RIGHT JOIN u ON t.k = u.k"),
    Shape("full_join", "SELECT t.id, t.k AS tk, u.w, u.k AS uk FROM t FULL JOIN u ON t.k = u.k"),
    Shape("cross_join", "SELECT t.id, e.a FROM t CROSS JOIN e"),
    Shape("theta_join", "SELECT t.id, e.a FROM t JOIN e ON t.v < e.a AND t.v > e.b"),
    Shape(
        "exists", "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.w > t.v)"
    ),
    Shape("not_exists", "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k)"),
    Shape("in_subquery", "SELECT id FROM t WHERE k IN (SELECT k FROM u WHERE w > 2)"),
    Shape("not_in_subquery", "SELECT id FROM t WHERE k NOT IN (SELECT k FROM u WHERE w > 5)"),
    Shape("scalar_subquery", "SELECT id, v - (SELECT max(w) FROM u) AS d FROM t"),
    Shape("correlated_count", "SELECT id, (SELECT count(*) FROM u WHERE u.k = t.k) AS n FROM t"),
    Shape(
        "correlated_max", "SELECT id FROM t WHERE v = (SELECT max(x.v) FROM t x WHERE x.k = t.k)"
    ),
    Shape(
        "lateral",
        "SELECT t.id, l.w FROM t, LATERAL (SELECT w FROM u WHERE u.k = t.k ORDER BY w DESC LIMIT 1) l",
    ),
    # --- top-n and windows
    Shape(
        "row_number_topn",
        "SELECT id, k, v FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY v DESC, id) AS rn FROM t) x WHERE rn <= 2",
        "SELECT id, k, v FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY v DESC NULLS FIRST, id) AS rn FROM t) x WHERE rn <= 2",
    ),
    Shape(
        "rank_topn",
        "SELECT id, k, r FROM (SELECT *, rank() OVER (PARTITION BY k ORDER BY v) AS r FROM t WHERE v IS NOT NULL) x WHERE r <= 2",
    ),
    Shape("order_limit", "SELECT id, v FROM t WHERE v IS NOT NULL ORDER BY v DESC, id LIMIT 3"),
    Shape("order_offset", "SELECT id FROM t WHERE v IS NOT NULL ORDER BY v, id LIMIT 2 OFFSET 1"),
    Shape(
        "distinct_on",
        "SELECT DISTINCT ON (k) k, id, v FROM t WHERE v IS NOT NULL ORDER BY k, v DESC, id",
    ),
    Shape(
        "lag_lead",
        "SELECT id, lag(v) OVER (PARTITION BY k ORDER BY id) AS p, lead(v, 1, -1) OVER (PARTITION BY k ORDER BY id) AS n FROM t",
    ),
    Shape(
        "running_sum",
        "SELECT id, sum(v) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s FROM t",
    ),
    Shape(
        "window_global",
        "SELECT id, row_number() OVER (ORDER BY id) AS rn, count(*) OVER () AS n FROM t",
    ),
    Shape(
        "qualify", "SELECT id, k FROM t QUALIFY row_number() OVER (PARTITION BY k ORDER BY id) = 1"
    ),
    # --- time windows
    Shape(
        "tumble",
        "SELECT window_start, window_end, count(*) AS n, sum(v) AS s FROM TUMBLE(t, ts, INTERVAL '30 seconds') GROUP BY window_start, window_end",
        f"SELECT window_start, window_end, count(*) AS n, sum(v) AS s FROM {tumble(30)} GROUP BY window_start, window_end",
    ),
    Shape(
        "tumble_key",
        "SELECT window_start, k, max(v) AS m FROM TUMBLE(t, ts, INTERVAL '1 minute') GROUP BY window_start, k",
        f"SELECT window_start, k, max(v) AS m FROM {tumble(60)} GROUP BY window_start, k",
    ),
    Shape(
        "tumble_rows",
        "SELECT id, window_start FROM TUMBLE(t, ts, INTERVAL '1 minute') WHERE v > 2",
        f"SELECT id, window_start FROM {tumble(60)} WHERE v > 2",
    ),
    Shape(
        "hop",
        "SELECT window_start, k, count(*) AS n, sum(v) AS s FROM HOP(t, ts, INTERVAL '20 seconds', INTERVAL '1 minute') GROUP BY window_start, k",
        f"SELECT window_start, k, count(*) AS n, sum(v) AS s FROM {hop(20, 60)} GROUP BY window_start, k",
    ),
    Shape(
        "session",
        "SELECT window_start, window_end, k, count(*) AS n, sum(v) AS s FROM SESSION(t PARTITION BY k, ts, INTERVAL '20 seconds') GROUP BY window_start, window_end, k",
        f"SELECT window_start, window_end, k, count(*) AS n, sum(v) AS s FROM {SESSIONS} GROUP BY window_start, window_end, k",
    ),
    Shape(
        "tumble_join",
        "SELECT x.window_start, x.n, u.w FROM (SELECT window_start, k, count(*) AS n FROM TUMBLE(t, ts, INTERVAL '1 minute') GROUP BY window_start, k) x JOIN u ON u.k = x.k",
        f"SELECT x.window_start, x.n, u.w FROM (SELECT window_start, k, count(*) AS n FROM {tumble(60)} GROUP BY window_start, k) x JOIN u ON u.k = x.k",
    ),
    # --- CTEs
    Shape(
        "cte",
        "WITH c AS (SELECT k, sum(v) AS s FROM t GROUP BY k) SELECT a.k, a.s, b.s AS s2 FROM c a JOIN c b ON a.k = b.k",
    ),
    Shape(
        "recursive",
        "WITH RECURSIVE r(a, b) AS (SELECT a, b FROM e UNION SELECT r.a, e.b FROM r JOIN e ON r.b = e.a) SELECT a, b FROM r",
    ),
    Shape("series", "SELECT t.id, s.n FROM t, generate_series(1, t.v) AS s(n) WHERE t.v < 4"),
)
