-- TG221
-- at 6:1
-- message: reflect reaches the machine
CREATE MATERIALIZED VIEW v AS
SELECT id, ts,
reflect('java.lang.System', 'getenv', 'PATH') AS path
FROM orders
EMIT ON WINDOW CLOSE;
