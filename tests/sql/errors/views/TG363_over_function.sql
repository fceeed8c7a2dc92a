-- TG363
-- at 7:3
-- message: percent_rank needs all rows of its partition
-- hint: PARTITION BY window_start
CREATE MATERIALIZED VIEW v AS
SELECT id,
  percent_rank() OVER (PARTITION BY customer ORDER BY ts) AS share
FROM orders
EMIT ON WINDOW CLOSE;
