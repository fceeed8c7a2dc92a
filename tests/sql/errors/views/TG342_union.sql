-- TG342
-- at 7:1
-- message: UNION ALL of 2 and 1 columns
-- hint: the same columns
CREATE MATERIALIZED VIEW v AS
SELECT id, ts FROM orders
UNION ALL SELECT id FROM plain;
