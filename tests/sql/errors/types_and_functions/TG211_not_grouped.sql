-- TG211
-- at 6:28
-- message: "customer" is neither grouped nor aggregated
-- hint: any_value(customer)
CREATE MATERIALIZED VIEW v AS
SELECT window_start, upper(customer) AS who
FROM TUMBLE(orders, ts, INTERVAL '1 hour')
GROUP BY window_start;
