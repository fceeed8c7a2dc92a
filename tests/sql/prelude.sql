-- What the statements of the error and case files can refer to.
CREATE SOURCE orders (
    id BIGINT,
    ts TIMESTAMP NOT NULL,
    tz TIMESTAMPTZ,
    customer VARCHAR,
    amount DECIMAL(10, 2),
    price DOUBLE,
    detail STRUCT<a INT, b STRUCT<c: TEXT>>,
    tags TEXT[],
    counts MAP<TEXT, INT>,
    WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH (connector = 'filesystem', path = 'data/orders') FORMAT PLAIN ENCODE JSON;

CREATE TABLE plain (id BIGINT, ts TIMESTAMP);

CREATE TABLE readings (tz TIMESTAMPTZ, v INT, WATERMARK FOR tz AS tz - INTERVAL '10 seconds') APPEND ONLY;

CREATE TABLE days (id BIGINT, d DATE, next_id INT AS id + 1, WATERMARK FOR d AS d - INTERVAL '2' DAY) APPEND ONLY;

CREATE TABLE ticks (id BIGINT, e INT, WATERMARK FOR e AS e - 10) APPEND ONLY;

CREATE MATERIALIZED VIEW hourly AS
SELECT window_start, count(*) AS n
FROM TUMBLE(orders, ts, INTERVAL '1 hour')
GROUP BY window_start;

CREATE TABLE deposits (
    trx_id VARCHAR PRIMARY KEY,
    created_at TIMESTAMP,
    status VARCHAR,
    status_length INT AS length(status),
    WATERMARK FOR created_at AS created_at - INTERVAL '5' DAY WITH TTL
);

CREATE TABLE by_hash (name VARCHAR, h INT AS hash(name) PRIMARY KEY);

CREATE TABLE customers (id BIGINT, name VARCHAR, PRIMARY KEY (id))
WITH (connector = 'filesystem', path = 'data/customers') FORMAT PLAIN ENCODE CSV;
