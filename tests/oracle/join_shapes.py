"""Joins of the rarer kinds over the tables of `shapes`, each with DuckDB's answer written by hand.

As-of joins are stated by their definition (the nearest row, of equally near ones the greatest), not
by DuckDB's own ASOF JOIN, which picks any of equally near rows.
"""

from __future__ import annotations

from tests.oracle.shapes import Shape


def nearest(outputs: str, key: str, near: str, order: str, left: bool = False) -> str:
    """t beside the first row of u by `order` among those that agree in `key` and satisfy `near`."""
    join = "LEFT JOIN" if left else "JOIN"
    return (
        f"SELECT {outputs} FROM t {join} LATERAL (SELECT * FROM u WHERE {key} AND {near} "
        f"ORDER BY {order} LIMIT 1) u ON true"
    )


DOWN = "u.w DESC, u.k DESC NULLS LAST, u.s DESC NULLS LAST"
UP = "u.w, u.k DESC NULLS LAST, u.s DESC NULLS LAST"

JOIN_SHAPES: tuple[Shape, ...] = (
    # --- as-of joins
    Shape(
        "asof_le",
        "SELECT t.id, u.w, u.s FROM t ASOF JOIN u ON t.k = u.k AND u.w <= t.v",
        nearest("t.id, u.w, u.s", "u.k = t.k", "u.w <= t.v", DOWN),
    ),
    Shape(
        "asof_lt_left",
        "SELECT t.id, u.w, u.s FROM t ASOF LEFT JOIN u ON t.k = u.k AND u.w < t.v",
        nearest("t.id, u.w, u.s", "u.k = t.k", "u.w < t.v", DOWN, left=True),
    ),
    Shape(
        "asof_ge",
        "SELECT t.id, u.w, u.s FROM t ASOF JOIN u ON t.k = u.k AND u.w >= t.v",
        nearest("t.id, u.w, u.s", "u.k = t.k", "u.w >= t.v", UP),
    ),
    Shape(
        "asof_gt_left",
        "SELECT t.id, u.w, u.s FROM t ASOF LEFT JOIN u ON t.k = u.k AND u.w > t.v",
        nearest("t.id, u.w, u.s", "u.k = t.k", "u.w > t.v", UP, left=True),
    ),
    Shape(
        "asof_no_key",
        "SELECT t.id, u.k, u.w FROM t ASOF LEFT JOIN u ON t.v >= u.w",
        nearest("t.id, u.k, u.w", "true", "u.w <= t.v", DOWN, left=True),
    ),
    Shape(
        "asof_match_condition",
        "SELECT t.id, u.w FROM t ASOF JOIN u MATCH_CONDITION (t.v >= u.w) ON t.k = u.k",
        nearest("t.id, u.w", "u.k = t.k", "u.w <= t.v", DOWN),
    ),
    Shape(
        "asof_self",
        "SELECT a.id, b.id AS before FROM t a ASOF LEFT JOIN t b ON a.g = b.g AND b.ts < a.ts",
        "SELECT a.id, b.id AS before FROM t a LEFT JOIN LATERAL (SELECT * FROM t b WHERE b.g = a.g "
        "AND b.ts < a.ts ORDER BY b.ts DESC, b.id DESC LIMIT 1) b ON true",
    ),
    Shape(
        "asof_aggregate",
        "SELECT u.w, count(*) AS n, sum(t.v) AS s FROM t ASOF JOIN u ON t.k + 1 = u.k AND "
        "u.w <= t.v GROUP BY u.w",
        "SELECT u.w, count(*) AS n, sum(t.v) AS s FROM t JOIN LATERAL (SELECT * FROM u WHERE "
        f"u.k = t.k + 1 AND u.w <= t.v ORDER BY {DOWN} LIMIT 1) u ON true GROUP BY u.w",
    ),
    # --- joins by more than equalities
    Shape("theta_left", "SELECT t.id, e.a FROM t LEFT JOIN e ON t.v < e.a"),
    Shape("theta_right", "SELECT t.id, e.a, e.b FROM t RIGHT JOIN e ON t.v < e.a AND t.k > e.b"),
    Shape("theta_full", "SELECT t.id, u.k, u.w FROM t FULL JOIN u ON t.v < u.w AND t.k = u.k"),
    Shape("unequal_left", "SELECT t.id, e.a FROM t LEFT JOIN e ON t.k <> e.a"),
    Shape("band_join", "SELECT t.id, u.w FROM t JOIN u ON u.w BETWEEN t.v - 1 AND t.v + 1"),
    Shape("band_full", "SELECT t.id, u.w FROM t FULL JOIN u ON u.w BETWEEN t.v - 1 AND t.v + 1"),
    Shape(
        "left_residual",
        "SELECT t.id, u.w, u.s FROM t LEFT JOIN u ON t.k = u.k AND (t.g = u.s OR t.v > u.w)",
    ),
    Shape("left_true", "SELECT t.id, e.a FROM t LEFT JOIN e ON true"),
    Shape("full_true", "SELECT t.id, e.a FROM t FULL JOIN e ON true"),
    Shape("text_range", "SELECT t.id, u.s FROM t LEFT JOIN u ON t.g < u.s AND t.k IS NOT NULL"),
    Shape(
        "null_safe_residual",
        "SELECT t.id, u.w FROM t FULL JOIN u ON t.k IS NOT DISTINCT FROM u.k AND t.v <> u.w",
    ),
    Shape("exists_range", "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM e WHERE e.a > t.v)"),
    Shape(
        "not_exists_range",
        "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.w < t.v)",
    ),
    Shape(
        "newest",
        "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM t b WHERE b.k = t.k AND b.id > t.id)",
    ),
    Shape(
        "theta_aggregate",
        "SELECT t.k, count(e.a) AS n, min(e.b) AS m FROM t LEFT JOIN e ON t.v > e.a GROUP BY t.k",
    ),
    Shape(
        "theta_three",
        "SELECT t.id, u.w, e.a FROM t LEFT JOIN u ON t.k = u.k AND u.w > t.v "
        "LEFT JOIN e ON e.a > u.w",
    ),
    # --- LATERAL and functions beside a row
    Shape(
        "lateral_top_two",
        "SELECT t.id, l.w, l.s FROM t, LATERAL (SELECT w, s FROM u WHERE u.k = t.k "
        "ORDER BY w DESC NULLS LAST, s NULLS LAST LIMIT 2) l",
    ),
    Shape(
        "lateral_left_first",
        "SELECT t.id, l.w FROM t LEFT JOIN LATERAL (SELECT w FROM u WHERE u.k = t.k "
        "ORDER BY w NULLS LAST LIMIT 1) l ON true",
    ),
    Shape(
        "lateral_aggregate",
        "SELECT t.id, l.n, l.m FROM t, LATERAL (SELECT count(*) AS n, max(w) AS m FROM u "
        "WHERE u.k = t.k) l",
    ),
    Shape(
        "lateral_groups",
        "SELECT t.id, l.s, l.n FROM t, LATERAL (SELECT s, count(*) AS n FROM u WHERE u.k = t.k "
        "GROUP BY s) l",
    ),
    Shape(
        "lateral_expression",
        "SELECT t.id, l.x FROM t, LATERAL (SELECT t.v + u.w AS x FROM u WHERE u.k = t.k) l",
    ),
    Shape(
        "unnest_ordinality",
        "SELECT t.id, l.x, l.o FROM t, UNNEST(string_to_array(t.g || ',b', ',')) "
        "WITH ORDINALITY AS l(x, o)",
        "SELECT id, unnest(a) AS x, generate_subscripts(a, 1) AS o FROM "
        "(SELECT id, string_split(g || ',b', ',') AS a FROM t WHERE g IS NOT NULL)",
    ),
    Shape(
        "series_left",
        "SELECT t.id, s.n FROM t LEFT JOIN LATERAL generate_series(3, t.v) AS s(n) ON true "
        "WHERE t.v < 6",
        "SELECT id, unnest(CASE WHEN v >= 3 THEN range(3, v + 1) ELSE [NULL] END) AS n FROM t "
        "WHERE v < 6",
    ),
)
