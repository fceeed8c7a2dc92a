-- TG214
-- at 7:7
-- message: WHERE must be boolean, but this is bigint
CREATE MATERIALIZED VIEW v AS
SELECT window_start, count(*) AS n
FROM TUMBLE(orders, ts, INTERVAL '1 hour')
WHERE id
GROUP BY window_start;
