-- TG309
-- at 9:1
-- message: EMIT ON WINDOW CLOSE needs a watermark column in GROUP BY
-- hint: window_start or window_end
CREATE MATERIALIZED VIEW v AS
SELECT customer, count(*) AS n
FROM TUMBLE(orders, ts, INTERVAL '1 hour')
GROUP BY customer
EMIT ON WINDOW CLOSE;
