-- TG311
-- at 7:25
-- message: size of TUMBLE must be whole months
-- hint: INTERVAL '1 month'
CREATE MATERIALIZED VIEW v AS
SELECT window_start, count(*) AS n
FROM TUMBLE(orders, ts, INTERVAL '1 month 3 days')
GROUP BY window_start;
