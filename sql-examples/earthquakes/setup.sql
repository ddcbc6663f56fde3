-- A week of earthquake reports: nested JSON, truly out of order.

CREATE TABLE quakes (
  id VARCHAR,
  properties STRUCT<mag DOUBLE PRECISION, place VARCHAR, time BIGINT, updated BIGINT,
                    net VARCHAR, type VARCHAR, status VARCHAR, tsunami INTEGER>,
  geometry JSONB,
  happened TIMESTAMPTZ AS to_timestamp((properties).time / 1000.0),
  WATERMARK FOR happened AS happened - INTERVAL '6 hours'
) APPEND ONLY
WITH (connector = 'file', path = 'sql-examples/data/earthquakes.jsonl')
FORMAT PLAIN ENCODE JSON;

-- No window: every report counts, however late it comes.
CREATE MATERIALIZED VIEW quakes_by_hour AS
SELECT date_trunc('hour', happened) AS hour, count(*) AS quakes,
       max((properties).mag) AS strongest,
       count(*) FILTER (WHERE (properties).mag >= 2.5) AS felt
FROM quakes
GROUP BY date_trunc('hour', happened);

-- A window takes rows until the watermark has passed its end; what comes later is late.
CREATE MATERIALIZED VIEW hourly_on_time AS
SELECT window_start, count(*) AS quakes, max((properties).mag) AS strongest
FROM TUMBLE(quakes, happened, INTERVAL '1 hour')
GROUP BY window_start;

-- The same, but a window appears only when it is final.
CREATE MATERIALIZED VIEW hourly_final AS
SELECT window_start, count(*) AS quakes, max((properties).mag) AS strongest
FROM TUMBLE(quakes, happened, INTERVAL '1 hour')
GROUP BY window_start
EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW strongest AS
SELECT net, id, place, mag, rank
FROM (
  SELECT (properties).net AS net, id, (properties).place AS place, (properties).mag AS mag,
         row_number() OVER (PARTITION BY (properties).net
                            ORDER BY (properties).mag DESC NULLS LAST, id) AS rank
  FROM quakes) q
WHERE rank <= 3;

CREATE MATERIALIZED VIEW swarms AS
SELECT net, window_start, window_end, count(*) AS quakes, max(mag) AS strongest
FROM SESSION(
  (SELECT (properties).net AS net, (properties).mag AS mag, happened FROM quakes)
  PARTITION BY net, happened, INTERVAL '3 hours')
GROUP BY net, window_start, window_end;

CREATE MATERIALIZED VIEW depths AS
SELECT (properties).net AS net, count(*) AS quakes,
       min(CAST(geometry -> 'coordinates' ->> 2 AS DOUBLE PRECISION)) AS shallowest,
       max(CAST(geometry -> 'coordinates' ->> 2 AS DOUBLE PRECISION)) AS deepest
FROM quakes
GROUP BY (properties).net;
