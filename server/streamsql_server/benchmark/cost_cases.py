"""Views whose operators keep state, for the benchmark of what a change costs: one view a case.

    a(id, k, v, ts)  the table that changes        b(id, k, v, ts)  the other side of a join

Every group (k) has ten rows, whatever the number of rows; times are one second apart.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """name; sql of the view; both: b is filled too; changes: the tables that change, one tick each.

    append_only: rows only come, and the tables say so. rising: the times of rows that come go on
    from those that are there, the tables have a watermark, and nothing is deleted.
    """

    name: str
    sql: str
    both: bool = False
    changes: tuple[str, ...] = ("a",)
    append_only: bool = False
    rising: bool = False


AGGREGATES: tuple[Case, ...] = (
    Case(
        "sum, count",
        "SELECT k, count(*) AS n, sum(v) AS s FROM a GROUP BY k",
    ),
    Case(
        "sum, count: append",
        "SELECT k, count(*) AS n, sum(v) AS s FROM a GROUP BY k",
        append_only=True,
    ),
    Case(
        "having, filter",
        "SELECT k, count(*) FILTER (WHERE v > 500000) AS n FROM a GROUP BY k HAVING count(*) > 3",
    ),
    Case(
        "average, stddev, corr",
        "SELECT k, avg(v) AS m, stddev(v) AS s, corr(v, id) AS c FROM a GROUP BY k",
    ),
    Case(
        "sum of doubles",
        "SELECT k, sum(v::double precision) AS s FROM a GROUP BY k",
    ),
    Case(
        "sum of numerics",
        "SELECT k, sum(v::numeric(12, 2)) AS s FROM a GROUP BY k",
    ),
    Case(
        "bool_and, bit_or",
        "SELECT k, bool_and(v > 10) AS b, bit_or(v) AS o FROM a GROUP BY k",
    ),
    Case(
        "min, max",
        "SELECT k, min(v) AS lo, max(v) AS hi FROM a GROUP BY k",
    ),
    Case(
        "min, max: append",
        "SELECT k, min(v) AS lo, max(v) AS hi FROM a GROUP BY k",
        append_only=True,
    ),
    Case(
        "min of texts",
        "SELECT k, min(v::text) AS s FROM a GROUP BY k",
    ),
    Case(
        "arg_max",
        "SELECT k, arg_max(id, v) AS s FROM a GROUP BY k",
    ),
    Case(
        "min of all",
        "SELECT min(v) AS lo, max(id) AS hi, count(*) AS n FROM a",
    ),
    Case(
        "count distinct",
        "SELECT k, count(DISTINCT v) AS n FROM a GROUP BY k",
    ),
    Case(
        "sum distinct",
        "SELECT k, sum(DISTINCT v) AS n FROM a GROUP BY k",
    ),
    Case(
        "ordered aggregate",
        "SELECT k, array_agg(v ORDER BY id) AS l FROM a GROUP BY k",
    ),
    Case(
        "string_agg",
        "SELECT k, string_agg(v::text, ',' ORDER BY v) AS s FROM a GROUP BY k",
    ),
    Case(
        "median",
        "SELECT k, percentile_cont(0.5) WITHIN GROUP (ORDER BY v) AS m FROM a GROUP BY k",
    ),
    Case(
        "percentile_disc",
        "SELECT k, percentile_disc(0.9) WITHIN GROUP (ORDER BY v) AS s FROM a GROUP BY k",
    ),
    Case(
        "mode",
        "SELECT k, mode() WITHIN GROUP (ORDER BY v % 3) AS s FROM a GROUP BY k",
    ),
    Case(
        "rollup",
        "SELECT k, id % 10 AS d, sum(v) AS s FROM a GROUP BY ROLLUP (k, id % 10)",
    ),
    Case(
        "cube",
        "SELECT k, id % 10 AS d, count(*) AS s FROM a GROUP BY CUBE (k, id % 10)",
    ),
    Case(
        "grouping sets, min",
        "SELECT k, id % 10 AS d, min(v) AS s FROM a GROUP BY GROUPING SETS ((k), (id % 10, k))",
    ),
    Case(
        "general, by key",
        "SELECT k, count(*) AS n, histogram(v % 3)::text AS h FROM a GROUP BY k",
    ),
    Case(
        "unnest, counted",
        "SELECT u.x, count(*) AS n FROM a CROSS JOIN LATERAL generate_series(a.k, a.k + "
        "2) AS u(x) GROUP BY u.x",
    ),
)

SETS: tuple[Case, ...] = (
    Case(
        "distinct",
        "SELECT DISTINCT k, v FROM a",
    ),
    Case(
        "union",
        "SELECT k FROM a UNION SELECT k FROM b",
        both=True,
    ),
    Case(
        "except",
        "SELECT k, v FROM a EXCEPT SELECT k, v FROM b",
        both=True,
    ),
    Case(
        "except all",
        "SELECT k FROM a EXCEPT ALL SELECT k FROM b",
        both=True,
        changes=("a", "b"),
    ),
    Case(
        "intersect",
        "SELECT k, v FROM a INTERSECT SELECT k, v FROM b",
        both=True,
        changes=("a", "b"),
    ),
    Case(
        "intersect all",
        "SELECT k FROM a INTERSECT ALL SELECT k FROM b",
        both=True,
    ),
)

JOINS: tuple[Case, ...] = (
    Case(
        "inner join",
        "SELECT a.id, b.id AS j FROM a JOIN b ON a.k = b.id",
        both=True,
    ),
    Case(
        "inner join, both sides",
        "SELECT a.id, b.id AS j FROM a JOIN b ON a.k = b.k",
        both=True,
        changes=("a", "b"),
    ),
    Case(
        "join of three",
        "SELECT a.id FROM a JOIN b ON a.k = b.id JOIN b c ON b.k = c.id",
        both=True,
    ),
    Case(
        "join of texts",
        "SELECT a.id, b.id AS j FROM a JOIN b ON a.k::text = b.id::text",
        both=True,
    ),
    Case(
        "self join",
        "SELECT x.id, y.id AS j FROM a x JOIN a y ON x.k = y.k AND x.id < y.id",
    ),
    Case(
        "left join",
        "SELECT a.id, b.v FROM a LEFT JOIN b ON a.k = b.id",
        both=True,
    ),
    Case(
        "left join, both sides",
        "SELECT a.id, b.v FROM a LEFT JOIN b ON a.id = b.id",
        both=True,
        changes=("a", "b"),
    ),
    Case(
        "right join",
        "SELECT a.id, b.v FROM a RIGHT JOIN b ON a.k = b.id",
        both=True,
        changes=("a", "b"),
    ),
    Case(
        "full join",
        "SELECT a.id, b.v FROM a FULL JOIN b ON a.k = b.id",
        both=True,
    ),
    Case(
        "full join, both sides",
        "SELECT a.id, b.v FROM a FULL JOIN b ON a.id = b.id",
        both=True,
        changes=("a", "b"),
    ),
    Case(
        "join, residual",
        "SELECT a.id FROM a JOIN b ON a.k = b.k AND a.v > b.v",
        both=True,
    ),
    Case(
        "left join, residual",
        "SELECT a.id, b.id AS j FROM a LEFT JOIN b ON a.k = b.k AND a.v > b.v",
        both=True,
        changes=("a", "b"),
    ),
    Case(
        "full join, residual",
        "SELECT a.id, b.id AS j FROM a FULL JOIN b ON b.k = a.k AND b.v > a.v",
        both=True,
        changes=("a", "b"),
    ),
    Case(
        "non-equi join",
        "SELECT a.id, b.id AS j FROM a JOIN b ON b.id > a.k AND b.id <= a.k + 2",
        both=True,
        changes=("a", "b"),
    ),
    Case(
        "left non-equi join",
        "SELECT a.id, b.id AS j FROM a LEFT JOIN b ON b.id > a.k AND b.id <= a.k + 2",
        both=True,
        changes=("a", "b"),
    ),
    Case(
        "exists",
        "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k)",
        both=True,
    ),
    Case(
        "exists, both sides",
        "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.id = a.id)",
        both=True,
        changes=("a", "b"),
    ),
    Case(
        "not exists",
        "SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.id = a.id)",
        both=True,
        changes=("a", "b"),
    ),
    Case(
        "not exists, residual",
        "SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.v > a.v)",
        both=True,
        changes=("a", "b"),
    ),
    Case(
        "any",
        "SELECT id FROM a WHERE v > ANY (SELECT b.v FROM b WHERE b.k = a.k)",
        both=True,
        changes=("a", "b"),
    ),
    Case(
        "in",
        "SELECT id FROM a WHERE k IN (SELECT id FROM b WHERE v > 500000)",
        both=True,
        changes=("a", "b"),
    ),
    Case(
        "not in",
        "SELECT id FROM a WHERE k NOT IN (SELECT id FROM b)",
        both=True,
        changes=("a", "b"),
    ),
    Case(
        "not in, nullable",
        "SELECT id FROM a WHERE k NOT IN (SELECT nullif(id, 3) FROM b WHERE id > 5)",
        both=True,
    ),
    Case(
        "as-of left join",
        "SELECT a.id, b.v FROM a ASOF LEFT JOIN b ON a.k = b.k AND b.id <= a.id",
        both=True,
    ),
    Case(
        "as-of join <=",
        "SELECT a.id, b.v FROM a ASOF JOIN b ON a.k = b.k AND b.v <= a.v",
        both=True,
        changes=("a", "b"),
    ),
    Case(
        "as-of join <",
        "SELECT a.id, b.v FROM a ASOF JOIN b ON a.k = b.k AND b.v < a.v",
        both=True,
        changes=("a", "b"),
    ),
    Case(
        "as-of join >=",
        "SELECT a.id, b.v FROM a ASOF JOIN b ON a.k = b.k AND b.v >= a.v",
        both=True,
        changes=("a", "b"),
    ),
    Case(
        "as-of join >",
        "SELECT a.id, b.v FROM a ASOF JOIN b ON a.k = b.k AND b.v > a.v",
        both=True,
        changes=("a", "b"),
    ),
    Case(
        "interval join",
        "SELECT a.id, b.id AS j FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts - "
        "INTERVAL '1 hour' AND a.ts",
        both=True,
    ),
    Case(
        "interval left join",
        "SELECT a.id, b.id AS j FROM a LEFT JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts - "
        "INTERVAL '1 hour' AND a.ts",
        both=True,
        changes=("a", "b"),
    ),
    Case(
        "interval join, streams",
        "SELECT a.id, b.id AS j FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts - "
        "INTERVAL '1000 days' AND a.ts",
        both=True,
        changes=("a", "b"),
        rising=True,
    ),
    Case(
        "as-of join, on close",
        "SELECT a.id, b.v FROM a ASOF JOIN b ON a.k = b.k AND b.ts <= a.ts EMIT ON WINDOW CLOSE",
        both=True,
        changes=("a", "b"),
        rising=True,
    ),
    Case(
        "window join",
        "SELECT x.id, y.id AS j FROM TUMBLE(a, ts, INTERVAL '1 minute') x JOIN "
        "TUMBLE(b, ts, INTERVAL '1 minute') y ON x.window_start = y.window_start AND "
        "x.window_end = y.window_end AND x.k = y.k",
        both=True,
    ),
    Case(
        "temporal join",
        "SELECT a.id, b.v FROM a JOIN b FOR SYSTEM_TIME AS OF PROCTIME() ON a.k = b.id",
        both=True,
        changes=("a", "b"),
    ),
    Case(
        "temporal join, versions",
        "SELECT a.id, b.v FROM a JOIN b FOR SYSTEM_TIME AS OF a.ts ON a.k = b.id",
        both=True,
        changes=("a", "b"),
        rising=True,
    ),
    Case(
        "correlated",
        "SELECT id, (SELECT count(*) FROM b WHERE b.k = a.k) AS n FROM a",
        both=True,
        changes=("a", "b"),
    ),
    Case(
        "scalar subquery",
        "SELECT id, (SELECT b.v FROM b WHERE b.id = a.k) AS n FROM a",
        both=True,
    ),
    Case(
        "above its average",
        "SELECT id FROM a WHERE v > (SELECT avg(x.v) FROM a x WHERE x.k = a.k)",
    ),
    Case(
        "lateral limit",
        "SELECT a.id, x.id AS j FROM a CROSS JOIN LATERAL (SELECT b.id FROM b WHERE b.k "
        "= a.k ORDER BY b.v DESC, b.id LIMIT 2) x",
        both=True,
        changes=("a", "b"),
    ),
    Case(
        "lateral, general",
        "SELECT a.id, x.s FROM a LEFT JOIN LATERAL (SELECT sum(b.v) AS s FROM b WHERE "
        "b.k = a.k AND b.v < a.v) x ON true",
        both=True,
    ),
)
