-- TG220
-- at 8:7
-- message: rand() is another value at every run
-- hint: let the row bring the value
CREATE MATERIALIZED VIEW v AS
SELECT window_start, count(*) AS n
FROM TUMBLE(orders, ts, INTERVAL '1 hour')
WHERE rand() < 0.1
GROUP BY window_start
EMIT ON WINDOW CLOSE;
