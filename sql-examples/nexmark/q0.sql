-- Pass through: what moving the rows costs.
CREATE MATERIALIZED VIEW q0 AS
SELECT auction, bidder, price, date_time AS "dateTime", extra
FROM bid;
