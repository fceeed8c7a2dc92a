CREATE TABLE a (k VARCHAR, ts TIMESTAMP, v INT, WATERMARK FOR ts AS ts - INTERVAL '1 minute') APPEND ONLY;
CREATE TABLE b (k VARCHAR, ts TIMESTAMP, w DOUBLE, WATERMARK FOR ts AS ts) APPEND ONLY;
CREATE TABLE names (k VARCHAR, title VARCHAR) APPEND ONLY;

CREATE MATERIALIZED VIEW per_minute AS
SELECT window_start, count(*) AS n FROM TUMBLE(a, ts, INTERVAL '1 minute') GROUP BY window_start
EMIT ON WINDOW CLOSE;

-- A view over a view (D3).
CREATE MATERIALIZED VIEW per_hour AS
SELECT window_start, sum(n) AS n FROM TUMBLE(per_minute, window_start, INTERVAL '1 hour') GROUP BY window_start
EMIT ON WINDOW CLOSE;

-- Sorted, from two inputs (C4, D2); the CAST loses the watermark (D1).
CREATE MATERIALIZED VIEW together AS
SELECT k, ts, CAST(ts AS DATE) AS day FROM a UNION ALL SELECT k, ts, CAST(ts AS DATE) FROM b EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW titled AS
SELECT a.k, a.ts, names.title FROM a LEFT JOIN names ON a.k = names.k EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW visits AS
SELECT k, window_start, window_end, count(*) AS n FROM SESSION(a, ts, k, INTERVAL '5 minutes')
GROUP BY k, window_start, window_end EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW of_all_time AS SELECT k, count(*) AS n FROM a GROUP BY k;

CREATE MATERIALIZED VIEW near AS
SELECT a.k, a.ts, b.w FROM a JOIN b
ON a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL '5 minutes' AND b.ts + INTERVAL '1 minute' EMIT ON WINDOW CLOSE;
