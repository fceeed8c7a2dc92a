-- TG217
-- at 7:13
-- message: there is no column 3 in SELECT: the last one is 2
CREATE MATERIALIZED VIEW v AS
SELECT window_start, count(*) AS n
FROM TUMBLE(orders, ts, INTERVAL '1 hour')
GROUP BY 1, 3;
