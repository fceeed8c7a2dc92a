-- TG104
-- at 9:16
-- message: "CLOS" in EMIT ON WINDOW CLOSE
-- hint: did you mean "CLOSE"?
CREATE MATERIALIZED VIEW v AS
SELECT window_start, count(*) AS n
FROM TUMBLE(orders, ts, INTERVAL '1 hour')
GROUP BY window_start
EMIT ON WINDOW CLOS;
