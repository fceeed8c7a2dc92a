-- TG322 W14: WATERMARK(relation, time_column, expression)
-- at 5:13
-- message: WATERMARK takes 3 arguments, not 2
CREATE MATERIALIZED VIEW v AS SELECT window_start, count(*) AS n
FROM TUMBLE(WATERMARK(plain, ts), ts, INTERVAL '1 hour') GROUP BY window_start;
-- hint: WATERMARK(relation, time_column, time_column - INTERVAL '1 minute')
