-- TG341
-- at 5:26
-- message: SESSION needs EMIT ON WINDOW CLOSE
-- hint: write EMIT ON WINDOW CLOSE at the end
CREATE MATERIALIZED VIEW v AS
SELECT window_end, count(*) AS n
FROM SESSION(orders, ts, INTERVAL '1 minute')
GROUP BY window_end;
