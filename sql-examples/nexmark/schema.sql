-- Nexmark: an online auction house. Three streams of one made-up world, always the same for the same seed,
-- and the side input of q13. `events` bounds all three together; without it they never end.

CREATE SOURCE person (
  id BIGINT,
  name VARCHAR,
  email_address VARCHAR,
  credit_card VARCHAR,
  city VARCHAR,
  state VARCHAR,
  date_time TIMESTAMP,
  extra VARCHAR,
  WATERMARK FOR date_time AS date_time - INTERVAL '4 seconds'
) WITH (connector = 'nexmark', "table.type" = 'person', events = '1000000', event_rate = '10000');

CREATE SOURCE auction (
  id BIGINT,
  item_name VARCHAR,
  description VARCHAR,
  initial_bid BIGINT,
  reserve BIGINT,
  date_time TIMESTAMP,
  expires TIMESTAMP,
  seller BIGINT,
  category BIGINT,
  extra VARCHAR,
  WATERMARK FOR date_time AS date_time - INTERVAL '4 seconds'
) WITH (connector = 'nexmark', "table.type" = 'auction', events = '1000000', event_rate = '10000');

CREATE SOURCE bid (
  auction BIGINT,
  bidder BIGINT,
  price BIGINT,
  channel VARCHAR,
  url VARCHAR,
  date_time TIMESTAMP,
  extra VARCHAR,
  WATERMARK FOR date_time AS date_time - INTERVAL '4 seconds'
) WITH (connector = 'nexmark', "table.type" = 'bid', events = '1000000', event_rate = '10000');

CREATE TABLE side_input (key BIGINT PRIMARY KEY, value VARCHAR);
INSERT INTO side_input SELECT i, i FROM generate_series(0, 9999) AS s(i);
