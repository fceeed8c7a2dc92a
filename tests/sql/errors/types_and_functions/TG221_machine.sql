-- TG221
-- at 6:1
-- message: reflect accesses the machine, but SQL may only use relations and pure functions (X1)
CREATE MATERIALIZED VIEW v AS
SELECT id, ts,
reflect('java.lang.System', 'getenv', 'PATH') AS path
FROM orders
EMIT ON WINDOW CLOSE;
