-- TG106
-- at 7:1
-- message: LIMIT in a view is not supported yet
-- hint: row_number() OVER (PARTITION BY window_start
CREATE MATERIALIZED VIEW v AS
SELECT id, ts FROM orders
LIMIT 3;
