CREATE MATERIALIZED VIEW v AS SELECT window_start, count(*) FROM TUMBLE(orders, ts, INTERVAL '1 hour') EMIT ON WINDOW CLOSE
----
CREATE MATERIALIZED VIEW v AS SELECT window_start, count(*) FROM TUMBLE(orders, ts, INTERVAL '1 hour') EMIT ON WINDOW CLOS
----
CREATE MATERIALIZED VIEW v AS SELECT window_start FROM TUMBLE(orders, ts, INTERVAL '1 hour') GROUP BY 1 EMITT ON WINDOW CLOSE
----
CREATE MATERIALIZED VIEW v AS SELECT window_start FROM TUMBLE(orders, ts, INTERVAL '1 hour') GROUP BY 1 EMIT WINDOW CLOSE
----
CREATE MATERIALIZED VIEW v AS SELECT window_start FROM TUMBLE(orders, ts, INTERVAL '1 hour') GROUP BY 1 EMIT ON WINDOW CLOSE LIMIT 3
----
CREATE MATERIALIZED VIEW v AS SELECT window_start FROM TUMBL(orders, ts, INTERVAL '1 hour') GROUP BY 1
----
CREATE MATERIALIZED VIEW v AS SELECT window_start FROM SESSION(orders, ts, INTERVAL '1 hour') GROUP BY 1
----
CREATE MATERIALIZED VIEW v AS SELECT window_start FROM CUMULATE(orders, ts, INTERVAL '1 hour', INTERVAL '1 day') GROUP BY 1
----
CREATE MATERIALIZED VIEW v AS SELECT ts FROM orders
----
CREATE MATERIALIZED VIEW v AS SELECT window_start FROM TUMBLE(hourly, window_start, INTERVAL '1 day') GROUP BY 1
----
CREATE MATERIALIZED VIEW v AS SELECT window_start FROM TUMBLE("orders$late", ts, INTERVAL '1 day') GROUP BY 1
----
CREATE MATERIALIZED VIEW v AS SELECT window_start FROM TUMBLE(orders, ts, INTERVAL '1 hour') t JOIN plain ON t.id = plain.id GROUP BY 1
----
CREATE MATERIALIZED VIEW v AS SELECT window_start FROM TUMBLE(orders, ts, INTERVAL '1 hour') GROUP BY 1 UNION ALL SELECT 1
----
CREATE MATERIALIZED VIEW v AS SELECT DISTINCT window_start FROM TUMBLE(orders, ts, INTERVAL '1 hour') GROUP BY 1
----
CREATE MATERIALIZED VIEW v AS SELECT window_start FROM TUMBLE(orders, ts, INTERVAL '1 hour') GROUP BY 1 ORDER BY 1
----
CREATE MATERIALIZED VIEW v AS SELECT window_start FROM TUMBLE(orders, ts, INTERVAL '1 hour') GROUP BY 1 LIMIT 10
----
CREATE MATERIALIZED VIEW v AS SELECT window_start, row_number() OVER (ORDER BY id) AS n FROM TUMBLE(orders, ts, INTERVAL '1 hour') GROUP BY 1
----
CREATE MATERIALIZED VIEW v AS SELECT window_start FROM TUMBLE(orders, ts, INTERVAL '1 hour') GROUP BY ROLLUP (window_start)
----
CREATE MATERIALIZED VIEW v AS SELECT window_start FROM TUMBLE(orders, ts, INTERVAL '1 hour') WHERE id IN (SELECT id FROM plain) GROUP BY 1
----
CREATE MATERIALIZED VIEW v AS SELECT customer, count(*) AS n FROM TUMBLE(orders, ts, INTERVAL '1 hour') GROUP BY customer
----
CREATE MATERIALIZED VIEW v AS SELECT window_start, explode(tags) AS tag FROM TUMBLE(orders, ts, INTERVAL '1 hour') GROUP BY 1
----
CREATE MATERIALIZED VIEW v AS SELECT window_start, sum(count(*)) AS n FROM TUMBLE(orders, ts, INTERVAL '1 hour') GROUP BY 1
----
CREATE MATERIALIZED VIEW v AS SELECT window_start FROM TUMBLE((SELECT id FROM orders), id, INTERVAL '1 hour') GROUP BY 1
----
CREATE MATERIALIZED VIEW v AS SELECT window_start FROM TUMBLE((SELECT ts - INTERVAL '1 month' AS t FROM orders), t, INTERVAL '1 hour') GROUP BY 1
----
CREATE MATERIALIZED VIEW v AS SELECT window_start FROM TUMBLE((SELECT CASE WHEN id > 1 THEN ts END AS t FROM orders), t, INTERVAL '1 hour') GROUP BY 1
----
CREATE MATERIALIZED VIEW v AS SELECT window_start FROM TUMBLE((SELECT ts, count(*) AS n FROM orders GROUP BY ts), ts, INTERVAL '1 hour') GROUP BY 1
----
CREATE MATERIALIZED VIEW v AS SELECT window_start FROM TUMBLE(orders, ts + INTERVAL '1 hour', INTERVAL '1 hour') GROUP BY 1
----
CREATE MATERIALIZED VIEW v AS SELECT window_start FROM TUMBLE(orders, ts, 3600) GROUP BY 1
----
CREATE MATERIALIZED VIEW v AS SELECT window_start FROM TUMBLE(orders, ts, INTERVAL '0 seconds') GROUP BY 1
----
CREATE MATERIALIZED VIEW v AS SELECT window_start FROM TUMBLE(days, d, INTERVAL '12 hours') GROUP BY 1
----
CREATE MATERIALIZED VIEW v AS SELECT window_start FROM TUMBLE(ticks, e, INTERVAL '12 hours') GROUP BY 1
----
CREATE MATERIALIZED VIEW v AS SELECT window_start, count(*) AS _rows FROM TUMBLE(orders, ts, INTERVAL '1 hour') GROUP BY 1
----
CREATE MATERIALIZED VIEW v AS SELECT window_start, detail.b.d AS d FROM TUMBLE(orders, ts, INTERVAL '1 hour') GROUP BY 1, 2
----
CREATE SOURCE s (ts TIMESTAMP, WATERMRK FOR ts AS ts) WITH (connector = 'filesystem', path = 'p') FORMAT PLAIN ENCODE JSON
----
CREATE SOURCE s (ts TIMESTAMP, WATERMARK FRO ts AS ts) WITH (connector = 'filesystem', path = 'p') FORMAT PLAIN ENCODE JSON
----
CREATE SOURCE s (ts TIMESTAMP, WATERMARK FOR ts AS SOURCE_WATERMARK()) WITH (connector = 'filesystem', path = 'p') FORMAT PLAIN ENCODE JSON
----
CREATE SOURCE s (ts TIMESTAMP, WATERMARK FOR ts AS PROC_TIME()) WITH (connector = 'filesystem', path = 'p') FORMAT PLAIN ENCODE JSON
----
CREATE SOURCE s (ts TIMESTAMP, WATERMARK FOR ts AS max(ts)) WITH (connector = 'filesystem', path = 'p') FORMAT PLAIN ENCODE JSON
----
CREATE SOURCE s (d DATE, WATERMARK FOR d AS d - INTERVAL '1 hour') WITH (connector = 'filesystem', path = 'p') FORMAT PLAIN ENCODE JSON
----
CREATE SOURCE s (id INT) WITH (connector = 'kafka', topic = 't') FORMAT PLAIN ENCODE JSON
----
CREATE SOURCE s (id INT) WITH (connector = 'filesystem', path = 'p') FORMT PLAIN ENCODE JSON
----
CREATE SOURCE s (id INT) WITH (connector = 'filesystem', path = 'p') FORMAT DEBEZIUM ENCODE JSON
----
CREATE SOURCE s (id INT) WITH (connector = 'filesystem', path = 'p') FORMAT PLAIN ENCODE JSON (delimiter = ';')
----
CREATE SOURCE s (id INT) WITH (connector = 'replay', path = 'p',
    filter = 'id > 3 AND nme = 1') FORMAT PLAIN ENCODE JSON
----
CREATE SOURCE s (id INT)
----
CREATE TABLE t (id INT PRIMARY KEY)
----
CREATE TABLE t (id INT, PRIMARY KEY (id))
----
CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS ts WITH TTL)
----
CREATE TABLE t (name VARCHAR(10))
----
CREATE TABLE t (detail STRUCT<a INT b TEXT>)
----
CREATE TABLE t (a INT, b TIMESTAMP AS a > 3)
----
CREATE SINK k FROM hourly
----
CREATE OR REPLACE TABLE t (id INT)
----
ALTER SOURCE orders ALTER WATERMARK FOR ts AS ts
----
UPDATE plain SET id = 1
----
DELETE FROM plain
----
SELECT * FROM orders$late
----
SELECT a, FROM orders
----
SELECT id FROM orders |> WHERE id > 1
----
SELECT ts AT TIME ZONE 'UTC' FROM orders
----
SELECT window_start FROM TUMBLE(orders, ts, INTERVAL '1 hour')
----
SELECT x.n FROM (SELECT count(*) AS n FROM orders) AS x WHERE x.m > 1
----
SELECT 1 SELECT 2
----
WITH x AS (SELECT 1 AS a) INSERT INTO plain SELECT a, NULL FROM x
----
INSERT INTO days (d, next_id) VALUES (NULL, 1)
----
INSERT INTO plain SELECT id FROM plain
----
INSERT INTO plain VALUES (id, NULL)
----
SHOW SORCES
----
DROP VIEW hourly
----
SELECT id FROM orders /* never closed
----
SELECT id FROM orders WEHRE id > 1
----
SELECT id FORM orders
----
SELECT id FROM orders GRUOP BY id
----
SELECT id FROM orders GROUPBY id
----
SELECT sum(id) OVER (ODER BY ts) AS s FROM orders
----
SELECT id FROM orders GROUP BY
----
SELECT FROM orders
----
SELECT id FROM
----
SELECT (id x) FROM orders
----
SELECT CASE WHEN id = 1 THEN 2 FROM orders
----
SELECT @id FROM orders
----
CREATE MATERIALIZED VIEW v AS SELECT window_start, count(*) AS n
FROM TUMBLE(orders ts, INTERVAL '1 hour') GROUP BY window_start
----
CREATE MATERIALIZED VIEW v AS SELECT window_start, count(*) AS n
FROM TUMBLE(orders, INTERVAL '1 hour', ts) GROUP BY window_start
----
CREATE MATERIALIZED VIEW v AS SELECT window_start, count(*) AS n
FROM TUMBLE(orders, ts, INTERVAL '1 hour') WHERE customer = "ada" GROUP BY window_start
----
CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds' minutes_late) APPEND ONLY
----
CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS ts - '5 seconds') APPEND ONLY
----
CREATE TABLE t (ts TIMESTAMP, WATERMARK ON ts AS ts) APPEND ONLY
----
CREATE TABLE t (id INT, twice INT AS id * 2 id)
----
CREATE TABLE t (id INT NOT NUL)
----
CREATE TABLE IF NOT EXIST t (id INT)
----
CREATE MATERIALIZED VIEW IF EXISTS v AS SELECT 1
----
INSERT INTO plain (id) VALUES (1 x)
----
CREATE SOURCE s (ts TIMESTAMP) APPEND ONLY WITH (connector = 'filesystem', path = 'x') FORMAT PLAIN ENCODE JSON
----
CREATE SOURCE s (ts TIMESTAMP) WITH TTL
----
CREATE SOURCE s (ts TIMESTAMP) WITH (connector = 'filesystem', path = 'x') FORMAT PLAIN ENCODE JSON nonsense
----
CREATE MATERIALIZED VIEW v AS VALUES (1)
----
CREATE MATERIALIZED VIEW v AS SELECT window_start, count(*) AS n
FROM TUMBLE(orders, ts, INTERVAL '1 hour') GROUP BY ALL
----
CREATE MATERIALIZED VIEW v AS SELECT /*+ COALESCE(1) */ window_start, count(*) AS n
FROM TUMBLE(orders, ts, INTERVAL '1 hour') GROUP BY window_start
----
CREATE TABLE t (watermark INT, flag INT AS watermark + 1 IF)
----
CREATE TABLE t (id INT NOT NULL NULL)
----
CREATE TABLE t (id INT COMMENT 'a' COMMENT 'b')
----
CREATE TABLE t (d DATE, WATERMARK FOR d AS d - 5) APPEND ONLY
