-- TG345
-- at 8:14
-- message: no column of "d" carries a watermark, but "days" has one: it was lost at line 8, column 18, because a
-- hint: join it by a column that carries a watermark
CREATE MATERIALIZED VIEW v AS
SELECT o.id, d.id AS day_id
FROM orders o
JOIN (SELECT id, CAST(d AS TIMESTAMP) AS day FROM days) AS d ON o.ts = d.day
EMIT ON WINDOW CLOSE;
