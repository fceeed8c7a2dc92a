-- TG312
-- at 7:41
-- message: size 15 minutes is not a multiple of slide 1 hour
-- hint: in the wrong order?
CREATE MATERIALIZED VIEW v AS
SELECT window_start, count(*) AS n
FROM HOP(orders, ts, INTERVAL '1 hour', INTERVAL '15 minutes')
GROUP BY window_start;
