-- Calculation: expressions of every kind over some of the bids.
CREATE MATERIALIZED VIEW q14 AS
SELECT auction, bidder, 0.908 * price AS price,
       CASE
         WHEN extract(hour FROM date_time) BETWEEN 8 AND 18 THEN 'dayTime'
         WHEN extract(hour FROM date_time) <= 6 OR extract(hour FROM date_time) >= 20 THEN 'nightTime'
         ELSE 'otherTime'
       END AS "bidTimeType",
       date_time AS "dateTime", extra,
       length(extra) - length(replace(extra, 'c', '')) AS c_counts
FROM bid
WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000;
