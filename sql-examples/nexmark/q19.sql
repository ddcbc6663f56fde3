-- Auction top ten: the ten highest bids of each auction.
CREATE MATERIALIZED VIEW q19 AS
SELECT auction, bidder, price, channel, url, date_time AS "dateTime", extra, rank_number
FROM (
  SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number
  FROM bid
) AS bids
WHERE rank_number <= 10;
