CREATE TABLE readings (sensor VARCHAR, seq BIGINT, WATERMARK FOR seq AS seq - 5) APPEND ONLY;

CREATE TABLE days (d DATE, n INT, WATERMARK FOR d AS d) APPEND ONLY;

CREATE TABLE plain (a INT) APPEND ONLY;

CREATE SOURCE clicks (
  at TIMESTAMPTZ,
  WATERMARK FOR at AS at - INTERVAL '5 seconds'
) WITH (connector = 'filesystem', path = 'clicks') FORMAT PLAIN ENCODE CSV (without_header = 'true');

CREATE MATERIALIZED VIEW tens AS
SELECT window_start, count(*) AS n FROM TUMBLE(readings, seq, 10) GROUP BY window_start
EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW weekly AS
SELECT window_start, sum(n) AS n FROM TUMBLE(days, d, INTERVAL '7 days') GROUP BY window_start;
