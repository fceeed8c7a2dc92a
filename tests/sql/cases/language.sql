-- C4: rows released in the order of event time; the time need not be shown.
CREATE MATERIALIZED VIEW released AS SELECT id, ts, price * 2 AS twice FROM orders WHERE price > 3 EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW released_without_time AS SELECT id, price FROM orders EMIT ON WINDOW CLOSE;

-- C6: any watermark column in GROUP BY.
CREATE MATERIALIZED VIEW by_time AS
SELECT ts, count(*) AS n, count(DISTINCT customer) FILTER (WHERE price > 1) AS buyers
FROM orders GROUP BY ts HAVING count(*) > 1 AND buyers > 0 EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW by_hour AS
SELECT date_trunc('hour', ts) AS hour, customer, sum(amount) AS total
FROM orders GROUP BY 1, ROLLUP(customer) EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW by_year AS SELECT EXTRACT(YEAR FROM ts) AS y, count(*) AS n FROM orders GROUP BY 1 EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW by_second AS SELECT EXTRACT(EPOCH FROM ts) AS e, count(*) AS n FROM orders GROUP BY 1 EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW distinct_times AS SELECT DISTINCT ts, customer FROM orders EMIT ON WINDOW CLOSE;

-- Never final, recomputed.
CREATE MATERIALIZED VIEW totals AS SELECT customer, count(*) AS n FROM orders GROUP BY customer;

-- C1, C3: the other windows.
CREATE MATERIALIZED VIEW sessions AS
SELECT customer, window_start, window_end, count(*) AS n
FROM SESSION(orders, ts, customer, INTERVAL '5 minutes') GROUP BY customer, window_start, window_end EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW cumulated AS
SELECT window_start, window_end, count(*) AS n
FROM CUMULATE(orders, ts, INTERVAL '1 hour', INTERVAL '1 day') GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW months AS
SELECT window_start, count(*) AS n FROM TUMBLE(orders, ts, INTERVAL '1 month') GROUP BY window_start EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW years AS
SELECT window_start, window_end, count(*) AS n FROM HOP(days, d, INTERVAL '1 month', INTERVAL '1 year') GROUP BY 1, 2 EMIT ON WINDOW CLOSE;

-- D3: views over views, close in order.
CREATE MATERIALIZED VIEW minutes AS
SELECT window_start, window_end, count(*) AS n FROM TUMBLE(orders, ts, INTERVAL '1 minute') GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW hours AS
SELECT window_start, sum(n) AS n FROM TUMBLE(minutes, window_start, INTERVAL '1 hour') GROUP BY window_start EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW busy AS
SELECT window_start, window_end, sum(n) AS n FROM SESSION(hours, window_start, INTERVAL '2 hours') GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW two_levels AS
SELECT window_start, count(*) AS customers
FROM (SELECT window_start, customer, count(*) AS n FROM TUMBLE(orders, ts, INTERVAL '1 hour') GROUP BY window_start, customer)
WHERE n > 2 GROUP BY window_start EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW through_subquery AS
SELECT window_start, count(*) AS n
FROM (SELECT window_start, customer FROM TUMBLE(orders, ts, INTERVAL '1 minute')) GROUP BY window_start EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW renamed_bound AS
SELECT window_start, count(*) AS n
FROM (SELECT window_end AS window_start FROM TUMBLE(orders, ts, INTERVAL '1 minute')) GROUP BY window_start EMIT ON WINDOW CLOSE;

-- D2: several inputs.
CREATE TABLE clicks (id BIGINT, t TIMESTAMP, WATERMARK FOR t AS t - INTERVAL '1 second') APPEND ONLY;

CREATE MATERIALIZED VIEW united AS
SELECT window_start, count(*) AS n
FROM TUMBLE((SELECT id, ts FROM orders UNION ALL SELECT id, t - INTERVAL '1 hour' FROM clicks), ts, INTERVAL '1 minute')
GROUP BY window_start EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW near AS
SELECT o.id, o.ts, c.t FROM orders o
LEFT JOIN clicks c ON o.id = c.id AND o.ts BETWEEN c.t - INTERVAL '1 minute' AND c.t + INTERVAL '5 minutes'
EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW same_window AS
SELECT a.window_start, a.customer, b.id
FROM TUMBLE(orders, ts, INTERVAL '1 minute') a JOIN TUMBLE(clicks, t, INTERVAL '1 minute') b
ON a.window_start = b.window_start AND a.id = b.id EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW either AS
SELECT coalesce(o.ts, c.t) AS t, o.id, c.id AS click FROM orders o FULL JOIN clicks c ON o.id = c.id AND o.ts = c.t EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW using_time AS
SELECT ts, count(*) AS n FROM orders FULL JOIN (SELECT id AS click, t AS ts FROM clicks) c USING (ts) GROUP BY ts EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW comma AS
SELECT window_start, count(*) AS n
FROM TUMBLE((SELECT o.ts FROM orders o, clicks c WHERE o.id = c.id AND o.ts >= c.t AND o.ts < c.t + INTERVAL '5 minutes'), ts, INTERVAL '1 hour')
GROUP BY window_start EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW looked_up AS
SELECT o.id, o.ts, p.ts AS since FROM orders o LEFT JOIN plain FOR SYSTEM_TIME AS OF PROCTIME() AS p ON o.id = p.id EMIT ON WINDOW CLOSE;

-- C5: OVER.
CREATE MATERIALIZED VIEW alerts AS
SELECT * FROM (
    SELECT customer, price, ts, lead(price, 1) OVER w AS next_price, lead(ts, 1) OVER w AS next_ts
    FROM orders WINDOW w AS (PARTITION BY customer ORDER BY ts)
) WHERE abs(next_price - price) > 10000 AND next_ts - ts < INTERVAL '30' SECOND;

CREATE MATERIALIZED VIEW moving AS
SELECT ts, customer, avg(price) OVER (PARTITION BY customer ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW) AS before,
    sum(amount) OVER (PARTITION BY customer ORDER BY ts RANGE BETWEEN INTERVAL '1 hour' PRECEDING AND INTERVAL '5 minutes' FOLLOWING) AS around
FROM orders EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW top AS
SELECT * FROM (
    SELECT window_start, customer, n, row_number() OVER (PARTITION BY window_start ORDER BY n DESC) AS place
    FROM (SELECT window_start, customer, count(*) AS n FROM TUMBLE(orders, ts, INTERVAL '1 hour') GROUP BY window_start, customer)
) WHERE place <= 3 EMIT ON WINDOW CLOSE;

-- W14: a gate inline.
CREATE MATERIALIZED VIEW gated AS
SELECT window_start, count(*) AS n FROM TUMBLE(WATERMARK(plain, ts, INTERVAL '1 minute'), ts, INTERVAL '1 hour') GROUP BY window_start EMIT ON WINDOW CLOSE;
