-- Highest bid: the bids with the highest price of each ten seconds.
CREATE MATERIALIZED VIEW q7 AS
SELECT b.auction, b.price, b.bidder, b.date_time AS "dateTime", b.extra
FROM bid AS b
JOIN (
  SELECT max(price) AS highest, window_end
  FROM TUMBLE(bid, date_time, INTERVAL '10 seconds')
  GROUP BY window_start, window_end
) AS m ON b.price = m.highest
WHERE b.date_time BETWEEN m.window_end - INTERVAL '10 seconds' AND m.window_end;
