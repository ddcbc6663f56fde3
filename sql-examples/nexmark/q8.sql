-- Monitor new users: who registered and opened an auction within the same ten seconds?
CREATE MATERIALIZED VIEW q8 AS
SELECT p.id, p.name, p.window_start AS stime
FROM (
  SELECT id, name, window_start, window_end
  FROM TUMBLE(person, date_time, INTERVAL '10 seconds')
  GROUP BY id, name, window_start, window_end
) AS p
JOIN (
  SELECT seller, window_start, window_end
  FROM TUMBLE(auction, date_time, INTERVAL '10 seconds')
  GROUP BY seller, window_start, window_end
) AS a
  ON p.id = a.seller AND p.window_start = a.window_start AND p.window_end = a.window_end;
