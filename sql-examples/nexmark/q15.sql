-- Bidding statistics report: how many bids, bidders and auctions a day, by price.
CREATE MATERIALIZED VIEW q15 AS
SELECT to_char(date_time, 'YYYY-MM-DD') AS day,
       count(*) AS c1,
       count(*) FILTER (WHERE price < 10000) AS c2,
       count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS c3,
       count(*) FILTER (WHERE price >= 1000000) AS c4,
       count(DISTINCT bidder) AS c5,
       count(DISTINCT bidder) FILTER (WHERE price < 10000) AS c6,
       count(DISTINCT bidder) FILTER (WHERE price >= 10000 AND price < 1000000) AS c7,
       count(DISTINCT bidder) FILTER (WHERE price >= 1000000) AS c8,
       count(DISTINCT auction) AS c9,
       count(DISTINCT auction) FILTER (WHERE price < 10000) AS c10,
       count(DISTINCT auction) FILTER (WHERE price >= 10000 AND price < 1000000) AS c11,
       count(DISTINCT auction) FILTER (WHERE price >= 1000000) AS c12
FROM bid
GROUP BY to_char(date_time, 'YYYY-MM-DD');
