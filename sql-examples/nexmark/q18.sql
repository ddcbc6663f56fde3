-- Find last bid: the latest bid of each user on each auction.
CREATE MATERIALIZED VIEW q18 AS
SELECT auction, bidder, price, channel, url, date_time AS "dateTime", extra
FROM (
  SELECT *, row_number() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC) AS place
  FROM bid
) AS bids
WHERE place <= 1;
