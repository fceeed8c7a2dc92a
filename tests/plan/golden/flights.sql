-- Departures of 2013.
CREATE SOURCE flights (
  carrier VARCHAR,
  origin VARCHAR,
  dep_delay INT,
  sched_dep TIMESTAMP,
  WATERMARK FOR sched_dep AS sched_dep - INTERVAL '1 hour'
) WITH (
  connector = 'replay',
  path = 'data/flights.parquet',
  partition.columns = 'origin',
  order.columns = 'sched_dep',
  max_rows_per_batch = 7000
) FORMAT PLAIN ENCODE PARQUET;

-- One row per hour, origin
-- and carrier.
CREATE MATERIALIZED VIEW hourly AS
SELECT window_start, window_end, origin, carrier, count(*) AS departures, avg(dep_delay) AS delay
FROM TUMBLE(flights, sched_dep, INTERVAL '1 hour')
WHERE dep_delay IS NOT NULL
GROUP BY window_start, window_end, origin, carrier
EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW rolling AS
SELECT window_end AS until, count(*) AS departures
FROM HOP(flights, sched_dep, INTERVAL '15 minutes', INTERVAL '1 hour')
GROUP BY window_end;
