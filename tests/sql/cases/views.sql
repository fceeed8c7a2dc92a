-- Departures per carrier.
-- Two lines of it.
CREATE MATERIALIZED VIEW tumble AS
SELECT window_start, window_end, customer, count(*) AS n, avg(price) AS avg_price, sum(amount) AS total
FROM TUMBLE(orders, ts, INTERVAL '1 hour')
GROUP BY window_start, window_end, customer
EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW hop_offset AS
SELECT h.window_end, count(DISTINCT h.customer) AS customers, count(*) FILTER (WHERE price > 10) AS dear
FROM HOP(orders, ts, INTERVAL '15 minutes', INTERVAL '1 hour', INTERVAL '5 minutes') AS h
WHERE h.customer <> 'nobody'
GROUP BY window_end;

CREATE MATERIALIZED VIEW shifted AS
WITH late_start AS (
    SELECT *, ts + INTERVAL '6 hours' AS business_time FROM orders WHERE id > 0
), few AS (
    SELECT o.business_time AS t, upper(o.customer) AS who, price * 2 AS twice FROM late_start o
)
SELECT window_start AS day, who, max(twice) AS dearest
FROM TUMBLE(few, t, INTERVAL '1' DAY)
GROUP BY 1, who
EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW subquery AS
SELECT window_start, count(*) AS n
FROM TUMBLE((SELECT ts FROM orders WHERE price IS NOT NULL), ts, INTERVAL '1 hour 30 minutes')
GROUP BY window_start;

CREATE MATERIALIZED VIEW zoned AS
SELECT window_start, window_end, sum(v) AS total FROM TUMBLE(readings, tz, INTERVAL '1 minute') GROUP BY window_start, window_end;

CREATE MATERIALIZED VIEW dates AS
SELECT window_start, window_end, count(*) AS n FROM HOP(days, d, INTERVAL '1 day', INTERVAL '1 week', INTERVAL '3 days') GROUP BY 1, 2;

CREATE MATERIALIZED VIEW epochs AS
SELECT window_start, window_end, count(*) AS n FROM HOP(ticks, e, 10, 20, 3) GROUP BY 1, 2;

CREATE MATERIALIZED VIEW epochs_tumble AS
SELECT window_start, count(*) AS n FROM TUMBLE(ticks, e, 10) GROUP BY 1;

CREATE MATERIALIZED VIEW computed_keys AS
SELECT window_start, 7 AS seven, transform(tags, t -> upper(t)) AS loud, detail.b.c AS c, counts['x'] AS x, count(*) AS n
FROM TUMBLE(orders, ts, INTERVAL '1 hour')
GROUP BY 1, 2, loud, detail.b.c, counts['x'];

CREATE MATERIALIZED VIEW never_throws AS
SELECT window_start, sum(id + 1) AS ids, avg(CAST(customer AS INT)) AS number, -max(id) AS negative,
    max(ts + INTERVAL '1 day') AS later, sum(id) / count(*) AS mean, collect_list(customer) AS customers
FROM TUMBLE(orders, ts, INTERVAL '1 hour')
GROUP BY window_start;

CREATE MATERIALIZED VIEW types AS
SELECT window_start, min(tz) AS tz, max(detail.a) AS a, first(tags) AS tags, sum(amount * 2) AS twice,
    avg(amount) AS mean, count_if(price > 1) AS dear, max(ts::TIMESTAMPTZ) AS zoned, approx_percentile(price, 0.5) AS median
FROM TUMBLE(orders, ts, INTERVAL '1 hour')
GROUP BY window_start;
