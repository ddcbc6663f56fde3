-- Average price for a category: of the highest bids while the auction was open.
CREATE MATERIALIZED VIEW q4 AS
SELECT category, CAST(floor(avg(final)) AS BIGINT) AS final
FROM (
  SELECT max(b.price) AS final, a.category
  FROM auction AS a, bid AS b
  WHERE a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires
  GROUP BY a.id, a.category
) AS q
GROUP BY category;
