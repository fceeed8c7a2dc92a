-- TG210
-- at 7:7
-- message: count is an aggregate: it is not allowed in WHERE
CREATE MATERIALIZED VIEW v AS
SELECT window_start, count(*) AS n
FROM TUMBLE(orders, ts, INTERVAL '1 hour')
WHERE count(*) > 3
GROUP BY window_start;
