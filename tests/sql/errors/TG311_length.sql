-- TG311
-- at 7:25
-- message: months and years have no fixed length
-- hint: INTERVAL '1 hour'
CREATE MATERIALIZED VIEW v AS
SELECT window_start, count(*) AS n
FROM TUMBLE(orders, ts, INTERVAL '1 month')
GROUP BY window_start;
