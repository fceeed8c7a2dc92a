-- TG209
-- at 6:22
-- message: there is no function "cuont"
-- hint: did you mean "count"?
CREATE MATERIALIZED VIEW v AS
SELECT window_start, cuont(*) AS n
FROM TUMBLE(orders, ts, INTERVAL '1 hour')
GROUP BY window_start;
