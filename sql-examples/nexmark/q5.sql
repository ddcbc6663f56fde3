-- Hot items: the auctions with the most bids in the last ten seconds, every two seconds.
CREATE MATERIALIZED VIEW q5 AS
WITH bids_of AS (
  SELECT auction, window_start, window_end, count(*) AS num
  FROM HOP(bid, date_time, INTERVAL '2 seconds', INTERVAL '10 seconds')
  GROUP BY auction, window_start, window_end
)
SELECT b.auction, b.num
FROM bids_of AS b
JOIN (
  SELECT window_start, window_end, max(num) AS most
  FROM bids_of
  GROUP BY window_start, window_end
) AS m
  ON b.window_start = m.window_start AND b.window_end = m.window_end AND b.num >= m.most;
