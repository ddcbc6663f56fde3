-- Channel id: from the channel's name or out of the url.
CREATE MATERIALIZED VIEW q21 AS
SELECT auction, bidder, price, channel,
       CASE lower(channel)
         WHEN 'apple' THEN '0'
         WHEN 'google' THEN '1'
         WHEN 'facebook' THEN '2'
         WHEN 'baidu' THEN '3'
         ELSE substring(url FROM '(?:&|^)channel_id=([^&]*)')
       END AS channel_id
FROM bid
WHERE substring(url FROM '(?:&|^)channel_id=([^&]*)') IS NOT NULL
   OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu');
