-- The ten worst hours of the year.
SELECT origin, window_start, flights, cancelled, round(mean_delay, 1) AS mean_delay, worst_delay
FROM delays_by_hour
WHERE flights >= 20
ORDER BY delays_by_hour.mean_delay DESC NULLS LAST, origin, window_start
LIMIT 10;

-- The busiest hour of each airport, whatever quarter it starts at.
SELECT DISTINCT ON (origin) origin, window_start, window_end, flights, miles
FROM busy_hours
ORDER BY origin, flights DESC, window_start;

-- Does the weather matter?
SELECT wind, rain, flights, round(100.0 * cancelled / flights, 2) AS cancelled_percent,
       round(mean_delay, 1) AS mean_delay
FROM delays_by_weather
ORDER BY wind, rain;

-- The longest stretches without a pause of 20 minutes.
SELECT origin, window_start, window_end, departures
FROM runway_activity
ORDER BY departures DESC, origin, window_start
LIMIT 10;

-- Who is on time?
SELECT airline, flights, cancelled, late, mean_delay
FROM airline_punctuality
ORDER BY airline_punctuality.mean_delay DESC, airline;

-- The days on which most flights were cancelled.
SELECT origin, day, flights, flights - departed AS cancelled
FROM daily_report
ORDER BY flights - departed DESC, origin, day
LIMIT 10;
