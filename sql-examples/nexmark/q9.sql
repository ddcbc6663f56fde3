-- Winning bids: the highest bid of each auction while it was open, the earliest of equal ones.
CREATE MATERIALIZED VIEW q9 AS
SELECT id, item_name AS "itemName", description, initial_bid AS "initialBid", reserve,
       date_time AS "dateTime", expires, seller, category, extra,
       auction, bidder, price, bid_date_time AS "bid_dateTime", bid_extra
FROM (
  SELECT a.*, b.auction, b.bidder, b.price, b.date_time AS bid_date_time, b.extra AS bid_extra,
         row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time) AS place
  FROM auction AS a, bid AS b
  WHERE a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires
) AS bids
WHERE place <= 1;
