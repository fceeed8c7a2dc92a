-- TG308
-- at 10:26
-- message: "t" lost its watermark at line 7, column 12: a watermark does not pass through CAST
-- hint: use ts itself
CREATE MATERIALIZED VIEW v AS
WITH cast_orders AS (
    SELECT CAST(ts AS TIMESTAMP) AS t FROM orders
)
SELECT window_start, count(*) AS n
FROM TUMBLE(cast_orders, t, INTERVAL '1 hour')
GROUP BY window_start;
