-- TG307
-- at 7:21
-- message: "tz" is not the watermark column
-- hint: use ts
CREATE MATERIALIZED VIEW v AS
SELECT window_start, count(*) AS n
FROM TUMBLE(orders, tz, INTERVAL '1 hour')
GROUP BY window_start;
