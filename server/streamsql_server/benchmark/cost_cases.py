"""Views whose operators keep state, for the benchmark of what a change costs: one view a case.

    a(id, k, v, ts)  the table that changes        b(id, k, v, ts)  the other side of a join

Every group (k) has ten rows, whatever the number of rows; times are one second apart.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """name; sql of the view; both: b is filled too; why: what an expert should know, when the time
    must grow with the state."""

    name: str
    sql: str
    both: bool = False
    why: str = ""


CASES: tuple[Case, ...] = (
    Case(
        "sum, count",
        "SELECT k, count(*) AS n, sum(v) AS s FROM a GROUP BY k",
    ),
    Case(
        "min, max",
        "SELECT k, min(v) AS lo, max(v) AS hi FROM a GROUP BY k",
    ),
    Case(
        "count distinct",
        "SELECT k, count(DISTINCT v) AS n FROM a GROUP BY k",
    ),
    Case(
        "ordered aggregate",
        "SELECT k, array_agg(v ORDER BY id) AS l FROM a GROUP BY k",
    ),
    Case(
        "median",
        "SELECT k, percentile_cont(0.5) WITHIN GROUP (ORDER BY v) AS m FROM a GROUP BY k",
    ),
    Case(
        "min of all",
        "SELECT min(v) AS lo, max(id) AS hi, count(*) AS n FROM a",
    ),
    Case(
        "grouping sets",
        "SELECT k, id % 10 AS d, sum(v) AS s FROM a GROUP BY ROLLUP (k, id % 10)",
    ),
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
        "intersect all",
        "SELECT k FROM a INTERSECT ALL SELECT k FROM b",
        both=True,
    ),
    Case(
        "inner join",
        "SELECT a.id, b.id AS j FROM a JOIN b ON a.k = b.id",
        both=True,
    ),
    Case(
        "left join",
        "SELECT a.id, b.v FROM a LEFT JOIN b ON a.k = b.id",
        both=True,
    ),
    Case(
        "full join",
        "SELECT a.id, b.v FROM a FULL JOIN b ON a.k = b.id",
        both=True,
    ),
    Case(
        "self join",
        "SELECT x.id, y.id AS j FROM a x JOIN a y ON x.k = y.k AND x.id < y.id",
    ),
    Case(
        "join, residual",
        "SELECT a.id FROM a JOIN b ON a.k = b.k AND a.v > b.v",
        both=True,
    ),
    Case(
        "exists",
        "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k)",
        both=True,
    ),
    Case(
        "not exists",
        "SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.id = a.id)",
        both=True,
    ),
    Case(
        "not in",
        "SELECT id FROM a WHERE k NOT IN (SELECT id FROM b)",
        both=True,
    ),
    Case(
        "as-of join",
        "SELECT a.id, b.v FROM a ASOF LEFT JOIN b ON a.k = b.k AND b.id <= a.id",
        both=True,
    ),
    Case(
        "interval join",
        "SELECT a.id, b.id AS j FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts - "
        "INTERVAL '1 hour' AND a.ts",
        both=True,
    ),
    Case(
        "window join",
        "SELECT x.id, y.id AS j FROM TUMBLE(a, ts, INTERVAL '1 minute') x JOIN "
        "TUMBLE(b, ts, INTERVAL '1 minute') y ON x.window_start = y.window_start AND "
        "x.window_end = y.window_end AND x.k = y.k",
        both=True,
    ),
    Case(
        "correlated",
        "SELECT id, (SELECT count(*) FROM b WHERE b.k = a.k) AS n FROM a",
        both=True,
    ),
    Case(
        "top 3 a group",
        "SELECT id, k FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY v "
        "DESC, id) AS r FROM a) x WHERE r <= 3",
    ),
    Case(
        "rank a group",
        "SELECT id, k, r FROM (SELECT *, rank() OVER (PARTITION BY k ORDER BY v) AS r "
        "FROM a) x WHERE r <= 3",
    ),
    Case(
        "top 10 of all",
        "SELECT id, v FROM a ORDER BY v DESC, id LIMIT 10",
    ),
    Case(
        "distinct on",
        "SELECT DISTINCT ON (k) k, id, v FROM a ORDER BY k, v DESC, id",
    ),
    Case(
        "lag",
        "SELECT id, lag(v) OVER (PARTITION BY k ORDER BY id) AS p FROM a",
    ),
    Case(
        "running sum",
        "SELECT id, sum(v) OVER (PARTITION BY k ORDER BY id) AS s FROM a",
    ),
    Case(
        "moving average",
        "SELECT id, avg(v) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 4 PRECEDING "
        "AND CURRENT ROW) AS s FROM a",
    ),
    Case(
        "lag of all",
        "SELECT id, lag(v) OVER (ORDER BY id) AS p FROM a",
    ),
    Case(
        "tumble",
        "SELECT window_start, window_end, k, sum(v) AS s FROM TUMBLE(a, ts, INTERVAL '1 "
        "minute') GROUP BY 1, 2, 3",
    ),
    Case(
        "hop",
        "SELECT window_start, window_end, k, sum(v) AS s FROM HOP(a, ts, INTERVAL '20 "
        "seconds', INTERVAL '1 minute') GROUP BY 1, 2, 3",
    ),
    Case(
        "session",
        "SELECT window_start, window_end, k, count(*) AS n FROM SESSION(a PARTITION BY "
        "k, ts, INTERVAL '10 seconds') GROUP BY 1, 2, 3",
    ),
    Case(
        "temporal filter",
        "SELECT id FROM a WHERE ts > now()::timestamp - INTERVAL '100 years'",
    ),
    Case(
        "non-equi join",
        "SELECT a.id, b.id AS j FROM a JOIN b ON b.id > a.id + 1000000000 AND b.v = -1",
        both=True,
    ),
    Case(
        "reachable",
        "WITH RECURSIVE r(n) AS (SELECT 0::bigint UNION SELECT a.id FROM r JOIN a ON "
        "a.v = r.n AND a.id < 0) SELECT n FROM r",
    ),
)
