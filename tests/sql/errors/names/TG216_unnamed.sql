-- TG216
-- at 6:22
-- message: this column has no name
-- hint: AS name
CREATE MATERIALIZED VIEW v AS
SELECT window_start, max(id) + 1
FROM TUMBLE(orders, ts, INTERVAL '1 hour')
GROUP BY window_start;
