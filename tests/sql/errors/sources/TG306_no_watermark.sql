-- TG306
-- at 7:20
-- message: table "plain" has no watermark
-- hint: declare WATERMARK FOR ts
CREATE MATERIALIZED VIEW v AS
SELECT window_start, count(*) AS n
FROM TUMBLE(plain, ts, INTERVAL '1 hour')
GROUP BY window_start;
