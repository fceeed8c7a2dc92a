-- TG310
-- at 7:6
-- message: TUMBLE takes 3 or 4 arguments, not 2
-- hint: TUMBLE(relation, time_column
CREATE MATERIALIZED VIEW v AS
SELECT window_start, count(*) AS n
FROM TUMBLE(orders, INTERVAL '1 hour')
GROUP BY window_start;
