-- User sessions: how many bids does a user make in each session of activity?
CREATE MATERIALIZED VIEW q11 AS
SELECT bidder, count(*) AS bid_count, window_start AS starttime, window_end AS endtime
FROM SESSION(bid PARTITION BY bidder, date_time, INTERVAL '10 seconds')
GROUP BY bidder, window_start, window_end;
