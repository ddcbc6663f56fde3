-- Bounded side input: bids enriched from a table.
CREATE MATERIALIZED VIEW q13 AS
SELECT b.auction, b.bidder, b.price, b.date_time AS "dateTime", s.value
FROM bid AS b
JOIN side_input AS s ON mod(b.auction, 10000) = s.key;
