-- TG220
-- at 8:7
-- message: rand() has a different value in every run, but a definition must give the same result each time
-- hint: put the value into a column of the row
CREATE MATERIALIZED VIEW v AS
SELECT window_start, count(*) AS n
FROM TUMBLE(orders, ts, INTERVAL '1 hour')
WHERE rand() < 0.1
GROUP BY window_start
EMIT ON WINDOW CLOSE;
