-- A year of departures from New York: tables fed by files, and views that are kept up to date.

CREATE TABLE airlines (
  carrier VARCHAR PRIMARY KEY,
  name VARCHAR
) WITH (connector = 'file', path = 'sql-examples/data/airlines.csv')
FORMAT PLAIN ENCODE CSV (header = 'true');

CREATE TABLE weather (
  origin VARCHAR,
  time_hour TIMESTAMPTZ,
  temp DOUBLE PRECISION,
  wind_speed DOUBLE PRECISION,
  precip DOUBLE PRECISION,
  visib DOUBLE PRECISION
) APPEND ONLY
WITH (connector = 'file', path = 'sql-examples/data/weather.parquet')
FORMAT PLAIN ENCODE PARQUET;

-- Rows are in order of the scheduled hour only, so they come up to one hour out of order.
CREATE TABLE departures (
  time_hour TIMESTAMPTZ,
  minute SMALLINT,
  origin VARCHAR,
  dest VARCHAR,
  carrier VARCHAR,
  flight INTEGER,
  dep_delay SMALLINT,
  distance SMALLINT,
  scheduled TIMESTAMPTZ AS time_hour + minute * INTERVAL '1 minute',
  departed TIMESTAMPTZ AS time_hour + (minute + dep_delay) * INTERVAL '1 minute',
  WATERMARK FOR scheduled AS scheduled - INTERVAL '1 hour'
) APPEND ONLY
WITH (connector = 'file', path = 'sql-examples/data/flights.parquet')
FORMAT PLAIN ENCODE PARQUET;

CREATE MATERIALIZED VIEW delays_by_hour AS
SELECT origin, window_start,
       count(*) AS flights,
       count(*) FILTER (WHERE dep_delay IS NULL) AS cancelled,
       avg(dep_delay) AS mean_delay,
       max(dep_delay) AS worst_delay
FROM TUMBLE(departures, scheduled, INTERVAL '1 hour')
GROUP BY origin, window_start;

CREATE MATERIALIZED VIEW busy_hours AS
SELECT origin, window_start, window_end, count(*) AS flights, sum(distance) AS miles
FROM HOP(departures, scheduled, INTERVAL '15 minutes', INTERVAL '1 hour')
GROUP BY origin, window_start, window_end;

CREATE MATERIALIZED VIEW delays_by_weather AS
SELECT CASE WHEN w.wind_speed >= 20 THEN 'windy' ELSE 'calm' END AS wind,
       CASE WHEN w.precip > 0 THEN 'wet' ELSE 'dry' END AS rain,
       count(*) AS flights,
       count(*) FILTER (WHERE d.dep_delay IS NULL) AS cancelled,
       avg(d.dep_delay) AS mean_delay
FROM departures d
JOIN weather w ON w.origin = d.origin AND w.time_hour = d.time_hour
GROUP BY 1, 2;

CREATE MATERIALIZED VIEW runway_activity AS
SELECT origin, window_start, window_end, count(*) AS departures
FROM SESSION(
  (SELECT origin, departed FROM departures WHERE departed IS NOT NULL)
  PARTITION BY origin, departed, INTERVAL '20 minutes')
GROUP BY origin, window_start, window_end;

CREATE MATERIALIZED VIEW airline_punctuality AS
SELECT a.name AS airline,
       count(*) AS flights,
       count(*) FILTER (WHERE d.dep_delay IS NULL) AS cancelled,
       count(*) FILTER (WHERE d.dep_delay > 15) AS late,
       round(avg(d.dep_delay), 1) AS mean_delay,
       max(d.scheduled) AS latest
FROM departures d
JOIN airlines a ON a.carrier = d.carrier
GROUP BY a.name;

CREATE MATERIALIZED VIEW daily_report AS
SELECT origin, window_start AS day, count(*) AS flights, count(dep_delay) AS departed
FROM TUMBLE(departures, scheduled, INTERVAL '1 day')
GROUP BY origin, window_start
EMIT ON WINDOW CLOSE;
