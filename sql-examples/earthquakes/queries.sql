-- Wait for what is still being read of the week.
FLUSH;

-- The liveliest hours.
SELECT hour, quakes, strongest, felt
FROM quakes_by_hour ORDER BY quakes DESC, hour LIMIT 10;

-- How much of the week came too late for its hour, and how late was it?
SELECT (SELECT sum(quakes) FROM quakes_by_hour) AS reports,
       (SELECT sum(quakes) FROM hourly_on_time) AS on_time,
       count(*) AS late, max(late_by) AS latest
FROM streamsql.late_rows WHERE view = 'hourly_on_time';

-- The strongest quakes by network.
SELECT net, rank, mag, place FROM strongest ORDER BY net, rank;

-- The longest swarms.
SELECT net, window_start, window_end, quakes, strongest
FROM swarms ORDER BY quakes DESC, net, window_start LIMIT 10;

-- From the surface to 600 kilometres down.
SELECT net, quakes, shallowest, deepest FROM depths ORDER BY deepest DESC NULLS LAST, net;
