"""More cases for the benchmark of what a change costs: rankings, OVER, time and recursion."""

from __future__ import annotations

from streamsql_server.benchmark.cost_cases import AGGREGATES, JOINS, SETS, Case

RANKINGS: tuple[Case, ...] = (
    Case(
        "top 3 a group",
        "SELECT id, k FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY v "
        "DESC, id) AS r FROM a) x WHERE r <= 3",
    ),
    Case(
        "top 3 a group: append",
        "SELECT id, k FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY v "
        "DESC, id) AS r FROM a) x WHERE r <= 3",
        append_only=True,
    ),
    Case(
        "rank a group",
        "SELECT id, k, r FROM (SELECT *, rank() OVER (PARTITION BY k ORDER BY v) AS r "
        "FROM a) x WHERE r <= 3",
    ),
    Case(
        "dedup, first",
        "SELECT id, k FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY ts, "
        "id) AS r FROM a) x WHERE r = 1",
    ),
    Case(
        "dedup, last",
        "SELECT id, k FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY ts "
        "DESC, id DESC) AS r FROM a) x WHERE r = 1",
    ),
    Case(
        "dedup, last: append",
        "SELECT id, k FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY ts "
        "DESC, id DESC) AS r FROM a) x WHERE r = 1",
        append_only=True,
    ),
    Case(
        "top 10 of all",
        "SELECT id, v FROM a ORDER BY v DESC, id LIMIT 10",
    ),
    Case(
        "offset",
        "SELECT id, v FROM a ORDER BY v DESC, id LIMIT 10 OFFSET 100",
    ),
    Case(
        "with ties",
        "SELECT id, v FROM a ORDER BY v DESC FETCH FIRST 10 ROWS WITH TIES",
    ),
    Case(
        "distinct on",
        "SELECT DISTINCT ON (k) k, id, v FROM a ORDER BY k, v DESC, id",
    ),
)

OVER: tuple[Case, ...] = (
    Case(
        "lag",
        "SELECT id, lag(v) OVER (PARTITION BY k ORDER BY id) AS p FROM a",
    ),
    Case(
        "lag of all",
        "SELECT id, lag(v) OVER (ORDER BY id) AS p FROM a",
    ),
    Case(
        "running sum",
        "SELECT id, sum(v) OVER (PARTITION BY k ORDER BY id) AS s FROM a",
    ),
    Case(
        "sum of the partition",
        "SELECT id, sum(v) OVER (PARTITION BY k) AS s FROM a",
    ),
    Case(
        "moving average",
        "SELECT id, avg(v) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 4 PRECEDING "
        "AND CURRENT ROW) AS s FROM a",
    ),
    Case(
        "moving maximum",
        "SELECT id, max(v) OVER (PARTITION BY k ORDER BY id ROWS BETWEEN 3 PRECEDING "
        "AND CURRENT ROW) AS s FROM a",
    ),
    Case(
        "range frame",
        "SELECT id, sum(v) OVER (PARTITION BY k ORDER BY v RANGE BETWEEN 1000 PRECEDING "
        "AND 1000 FOLLOWING) AS s FROM a",
    ),
    Case(
        "groups frame",
        "SELECT id, count(*) OVER (PARTITION BY k ORDER BY v GROUPS BETWEEN 2 PRECEDING "
        "AND CURRENT ROW) AS s FROM a",
    ),
    Case(
        "exclude",
        "SELECT id, sum(v) OVER (PARTITION BY k ORDER BY v ROWS BETWEEN 2 PRECEDING AND "
        "2 FOLLOWING EXCLUDE CURRENT ROW) AS s FROM a",
    ),
    Case(
        "row_number, rank",
        "SELECT id, row_number() OVER (PARTITION BY k ORDER BY v, id) AS r, rank() OVER "
        "(PARTITION BY k ORDER BY v) AS q, dense_rank() OVER (PARTITION BY k ORDER BY "
        "v) AS d FROM a",
    ),
    Case(
        "percent_rank",
        "SELECT id, percent_rank() OVER (PARTITION BY k ORDER BY v) AS s, cume_dist() "
        "OVER (PARTITION BY k ORDER BY v) AS c FROM a",
    ),
    Case(
        "ntile",
        "SELECT id, ntile(4) OVER (PARTITION BY k ORDER BY v) AS s FROM a",
    ),
    Case(
        "nth_value",
        "SELECT id, nth_value(v, 2) OVER (PARTITION BY k ORDER BY v) AS s FROM a",
    ),
    Case(
        "first, last value",
        "SELECT id, first_value(v) OVER w AS f, last_value(v) OVER w AS l FROM a WINDOW "
        "w AS (PARTITION BY k ORDER BY v ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED "
        "FOLLOWING)",
    ),
)

TIMES: tuple[Case, ...] = (
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
        "hop, distinct",
        "SELECT window_start, count(DISTINCT v) AS n FROM HOP(a, ts, INTERVAL '20 "
        "seconds', INTERVAL '1 minute') GROUP BY 1",
    ),
    Case(
        "cumulate",
        "SELECT window_start, window_end, k, sum(v) AS s FROM CUMULATE(a, ts, INTERVAL "
        "'20 seconds', INTERVAL '1 minute') GROUP BY 1, 2, 3",
    ),
    Case(
        "session",
        "SELECT window_start, window_end, k, count(*) AS n FROM SESSION(a PARTITION BY "
        "k, ts, INTERVAL '10 seconds') GROUP BY 1, 2, 3",
    ),
    Case(
        "session: append",
        "SELECT window_start, window_end, k, count(*) AS n FROM SESSION(a PARTITION BY "
        "k, ts, INTERVAL '10 seconds') GROUP BY 1, 2, 3",
        append_only=True,
    ),
    Case(
        "session, rows",
        "SELECT id, window_start FROM SESSION(a PARTITION BY k, ts, INTERVAL '10 seconds')",
    ),
    Case(
        "temporal filter",
        "SELECT id FROM a WHERE ts > now()::timestamp - INTERVAL '100 years'",
    ),
    Case(
        "clock in a column",
        "SELECT id, CASE WHEN ts > now()::timestamp - INTERVAL '100 years' THEN 1 ELSE "
        "0 END AS f FROM a",
    ),
    Case(
        "first seen",
        "SELECT id, now() AS seen FROM a",
    ),
)

RECURSIONS: tuple[Case, ...] = (
    Case(
        "reachable",
        "WITH RECURSIVE r(n) AS (SELECT id FROM b WHERE id < 10 UNION SELECT a.id FROM "
        "r JOIN a ON a.k = r.n) SELECT n FROM r",
        both=True,
    ),
    Case(
        "depth",
        "WITH RECURSIVE r(n, d) AS (SELECT id, 0 FROM a WHERE id % 10 = 3 UNION ALL "
        "SELECT a.id, r.d + 1 FROM r JOIN a ON a.k = r.n WHERE r.d < 3) SELECT n, d "
        "FROM r",
    ),
)

CASES: tuple[Case, ...] = (
    *AGGREGATES, *SETS, *JOINS, *RANKINGS, *OVER, *TIMES, *RECURSIONS,
)  # fmt: skip
