-- Selection: bids on some auctions.
CREATE MATERIALIZED VIEW q2 AS
SELECT auction, price
FROM bid
WHERE mod(auction, 123) = 0;
