-- TG202
-- at 6:26
-- message: there is no column "amont" in "orders"
-- hint: did you mean "amount"?
CREATE MATERIALIZED VIEW v AS
SELECT window_start, sum(amont) AS total
FROM TUMBLE(orders, ts, INTERVAL '1 hour')
GROUP BY window_start;
