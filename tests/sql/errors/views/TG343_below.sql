-- TG343
-- at 8:6
-- message: SESSION below a JOIN in one query
-- hint: a view of its own
CREATE MATERIALIZED VIEW v AS
SELECT s.window_end, p.id
FROM (SELECT window_end, count(*) AS n FROM SESSION(orders, ts, INTERVAL '1 minute') GROUP BY window_end) s
JOIN plain p ON s.n = p.id
EMIT ON WINDOW CLOSE;
