-- TG222
-- at 7:1
-- message: raise_error() raises an error on purpose, and a view could never continue past such a row (C7)
-- hint: exclude such rows with WHERE, or check for them with an expectation in quality/
CREATE MATERIALIZED VIEW v AS
SELECT id, ts,
raise_error('no customer') AS note
FROM orders
EMIT ON WINDOW CLOSE;
