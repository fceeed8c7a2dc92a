-- TG106
-- at 9:1
-- message: HAVING in a view is not supported yet
-- hint: filter when you read the view
CREATE MATERIALIZED VIEW v AS
SELECT window_start, count(*) AS n
FROM TUMBLE(orders, ts, INTERVAL '1 hour')
GROUP BY window_start
HAVING count(*) > 1;
