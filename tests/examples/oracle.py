"""The examples' views once more, as batch SQL that DuckDB runs over the raw files.

Written by hand, from the meaning of each view, so that the two share nothing but the data.
{data} = the folder of the files.
"""

FLIGHTS = "read_parquet('{data}/flights.parquet')"
WEATHER = "read_parquet('{data}/weather.parquet')"
AIRLINES = "read_csv('{data}/airlines.csv')"
SCHEDULED = "time_hour + to_minutes(minute)"
QUAKES = (
    "(SELECT row_number() OVER () AS n, id, properties AS p, geometry AS g, "
    "epoch_ms(CAST(properties.time AS BIGINT))::TIMESTAMPTZ AS happened "
    "FROM read_ndjson('{data}/earthquakes.jsonl', columns = {{id: 'VARCHAR', geometry: 'JSON', "
    "properties: 'STRUCT(mag DOUBLE, place VARCHAR, time BIGINT, net VARCHAR)'}}))"
)

VIEWS: dict[str, dict[str, str]] = {
    "flights": {
        "delays_by_hour": f"""
            SELECT origin, time_hour AS window_start, count(*),
                   count(*) - count(dep_delay), avg(dep_delay), max(dep_delay)
            FROM {FLIGHTS} GROUP BY ALL""",
        "busy_hours": f"""
            WITH d AS (SELECT origin, distance, {SCHEDULED} AS t FROM {FLIGHTS}),
                 w AS (SELECT origin, distance,
                              time_bucket(INTERVAL 15 MINUTE, t) - to_minutes(15 * k) AS start
                       FROM d, range(4) r(k))
            SELECT origin, start, start + INTERVAL 1 HOUR, count(*), sum(distance)
            FROM w GROUP BY ALL""",
        "delays_by_weather": f"""
            SELECT if(wind_speed >= 20, 'windy', 'calm'), if(precip > 0, 'wet', 'dry'),
                   count(*), count(*) - count(dep_delay), avg(dep_delay)
            FROM {FLIGHTS} JOIN {WEATHER} USING (origin, time_hour) GROUP BY ALL""",
        "runway_activity": f"""
            WITH d AS (SELECT origin, time_hour + to_minutes(minute + dep_delay) AS t
                       FROM {FLIGHTS} WHERE dep_delay IS NOT NULL),
                 s AS (SELECT *, t - lag(t) OVER (PARTITION BY origin ORDER BY t)
                                 <= INTERVAL 20 MINUTE AS joined FROM d),
                 g AS (SELECT *, count(*) FILTER (WHERE joined IS NOT true)
                                 OVER (PARTITION BY origin ORDER BY t
                                       ROWS UNBOUNDED PRECEDING) AS session FROM s)
            SELECT origin, min(t), max(t) + INTERVAL 20 MINUTE, count(*)
            FROM g GROUP BY origin, session""",
        "airline_punctuality": f"""
            SELECT name, count(*), count(*) - count(dep_delay),
                   count(*) FILTER (WHERE dep_delay > 15),
                   round(avg(dep_delay), 1), max({SCHEDULED})
            FROM {FLIGHTS} JOIN {AIRLINES} USING (carrier) GROUP BY name""",
        # the watermark ends one hour before the latest flight, which closes all days but the last
        "daily_report": f"""
            WITH d AS (SELECT origin, dep_delay, {SCHEDULED} AS t FROM {FLIGHTS})
            SELECT origin, time_bucket(INTERVAL 1 DAY, t) AS day, count(*), count(dep_delay)
            FROM d GROUP BY ALL
            HAVING day + INTERVAL 1 DAY <= (SELECT max(t) - INTERVAL 1 HOUR FROM d)""",
    },
    "earthquakes": {
        "quakes_by_hour": f"""
            SELECT date_trunc('hour', happened), count(*), max(p.mag),
                   count(*) FILTER (WHERE p.mag >= 2.5)
            FROM {QUAKES} GROUP BY 1""",
        "hourly_on_time": f"""
            WITH q AS (SELECT *, time_bucket(INTERVAL 1 HOUR, happened) AS start,
                              max(happened) OVER (ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING
                                                  AND 1 PRECEDING) - INTERVAL 6 HOUR AS mark
                       FROM {QUAKES})
            SELECT start, count(*), max(p.mag) FROM q
            WHERE coalesce(start + INTERVAL 1 HOUR > mark, true)
            GROUP BY start""",
        "hourly_final": f"""
            WITH q AS (SELECT *, time_bucket(INTERVAL 1 HOUR, happened) AS start,
                              max(happened) OVER (ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING
                                                  AND 1 PRECEDING) - INTERVAL 6 HOUR AS mark
                       FROM {QUAKES})
            SELECT start, count(*), max(p.mag) FROM q
            WHERE coalesce(start + INTERVAL 1 HOUR > mark, true)
            GROUP BY start
            HAVING start + INTERVAL 1 HOUR <= (SELECT max(happened) - INTERVAL 6 HOUR FROM q)""",
        "strongest": f"""
            SELECT p.net, id, p.place, p.mag,
                   row_number() OVER (PARTITION BY p.net ORDER BY p.mag DESC NULLS LAST, id) AS r
            FROM {QUAKES} QUALIFY r <= 3""",
        "swarms": f"""
            WITH s AS (SELECT p.net AS net, p.mag AS mag, happened AS t,
                              t - lag(t) OVER (PARTITION BY p.net ORDER BY happened)
                              <= INTERVAL 3 HOUR AS joined
                       FROM {QUAKES} q WHERE NOT list_contains({{late}}, q.n)),
                 g AS (SELECT *, count(*) FILTER (WHERE joined IS NOT true)
                                 OVER (PARTITION BY net ORDER BY t
                                       ROWS UNBOUNDED PRECEDING) AS session FROM s)
            SELECT net, min(t), max(t) + INTERVAL 3 HOUR, count(*), max(mag)
            FROM g GROUP BY net, session""",
        "depths": f"""
            SELECT p.net, count(*), min((g->'coordinates'->>2)::DOUBLE),
                   max((g->'coordinates'->>2)::DOUBLE)
            FROM {QUAKES} GROUP BY p.net""",
    },
}

LATE_QUAKES = f"""
    WITH q AS (SELECT time_bucket(INTERVAL 1 HOUR, happened) AS start,
                      max(happened) OVER (ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING
                                          AND 1 PRECEDING) - INTERVAL 6 HOUR AS mark
               FROM {QUAKES})
    SELECT count(*) FROM q WHERE start + INTERVAL 1 HOUR <= mark"""
"""How many reports come when their hour is closed."""


def late_for_swarms(rows: list[tuple[int, str, int]]) -> list[int]:
    """Numbers of the reports that come too late for their swarm.

    rows: (number, network, event time in µs) in order of arrival. The rule, one row at a time: a
    row is late when it is at most a gap from a closed swarm, or when it would be a swarm of its own
    that is closed already; a swarm is closed when the watermark before the row is at its end.
    """
    gap, delay = 3 * 3600 * 10**6, 6 * 3600 * 10**6
    late, latest = [], None
    swarms: dict[str, list[tuple[int, int]]] = {}
    for number, net, at in rows:
        mark = latest - delay if latest is not None else -(2**62)
        near = [s for s in swarms.get(net, []) if s[0] - gap <= at <= s[1] + gap]
        if any(last + gap <= mark for _, last in near) or (not near and at + gap <= mark):
            late.append(number)
        else:
            rest = [s for s in swarms.get(net, []) if s not in near]
            merged = (min([at, *(s[0] for s in near)]), max([at, *(s[1] for s in near)]))
            swarms[net] = [*rest, merged]
        latest = at if latest is None else max(latest, at)
    return late


ARRIVALS = f"SELECT n, p.net, epoch_us(happened) FROM {QUAKES} ORDER BY n"
