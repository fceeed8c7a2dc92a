-- The documentation's deposits_src, with INSERTs in the place of Kafka.
CREATE TABLE deposits_src (
    trx_id VARCHAR PRIMARY KEY,
    created_at TIMESTAMP,
    deposit_status VARCHAR,
    WATERMARK FOR created_at AS created_at - INTERVAL '5' DAY WITH TTL
);

CREATE TABLE plans (name VARCHAR, country VARCHAR, price DECIMAL(8, 2), PRIMARY KEY (name, country))
WITH (connector = 'filesystem', path = 'data/plans') FORMAT PLAIN ENCODE CSV;

CREATE MATERIALIZED VIEW daily AS
SELECT window_start, deposit_status, count(*) AS n
FROM TUMBLE(deposits_src, created_at, INTERVAL '1 day')
GROUP BY window_start, deposit_status
EMIT ON WINDOW CLOSE;
