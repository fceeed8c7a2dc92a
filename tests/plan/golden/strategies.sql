-- Reads its own disorder.
CREATE SOURCE auto (at TIMESTAMPTZ, WATERMARK FOR at AS SOURCE_WATERMARK())
WITH (connector = 'filesystem', path = 'auto', max_future_skew = '1 day') FORMAT PLAIN ENCODE JSON;

CREATE TABLE ticks (n BIGINT, WATERMARK FOR n AS SOURCE_WATERMARK()) APPEND ONLY
WITH (watermark.window = 100, watermark.quantile = 0.5, watermark.interval = 11, watermark.min_delay = 1,
    watermark.max_delay = 60, watermark.warm_up = 'none');

CREATE TABLE orders (order_time TIMESTAMP, WATERMARK FOR order_time AS CASE
    WHEN order_time > PROC_TIME() THEN NULL
    WHEN order_time = max(order_time) OVER (ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) THEN NULL
    ELSE order_time - INTERVAL '1' MINUTE END) APPEND ONLY
WITH (watermark_granularity = 'batch', watermark.window = 10);

CREATE MATERIALIZED VIEW per_minute AS SELECT window_end, count(*) AS n
FROM TUMBLE(orders, order_time, INTERVAL '1 minute') GROUP BY window_end EMIT ON WINDOW CLOSE;
