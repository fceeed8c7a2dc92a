-- TG222
-- at 7:1
-- message: raise_error() fails on purpose
-- hint: leave such rows out by WHERE
CREATE MATERIALIZED VIEW v AS
SELECT id, ts,
raise_error('no customer') AS note
FROM orders
EMIT ON WINDOW CLOSE;
