-- Clicks as they happen.
CREATE SOURCE clicks (
    id BIGINT NOT NULL,
    page VARCHAR,
    visitor VARCHAR AS CAST($key AS VARCHAR),
    clicked_at TIMESTAMP,
    WATERMARK FOR clicked_at AS clicked_at - INTERVAL '5 seconds'
) WITH (
    connector = 'kafka',
    topic = '${TOPIC}',
    properties.bootstrap.server = 'broker-1:9093,broker-2:9093',
    properties.security.protocol = 'SASL_SSL',
    properties.sasl.jaas.config = 'x.LoginModule required username="app" password="${KAFKA_PASSWORD}";',
    scan.startup.mode = 'timestamp',
    scan.startup.timestamp.millis = 1767225600000,
    idle_advance = true
) FORMAT PLAIN ENCODE JSON;

-- No watermark of its own: windows over $rowtime have the advisory one (W12).
CREATE SOURCE orders (id BIGINT, price DECIMAL(12, 2))
INCLUDE TIMESTAMP AS sent_at INCLUDE PARTITION AS part
WITH (
    connector = 'kafka', topic = 'orders', properties.bootstrap.server = 'broker-1:9092',
    idle_timeout = 'off', on_data_loss = 'record', group.id.prefix = 'shop'
) FORMAT PLAIN ENCODE AVRO (
    schema.registry = 'https://registry.example.com', schema.registry.username = 'app',
    schema.registry.password = '${REGISTRY_PASSWORD}'
);

CREATE MATERIALIZED VIEW per_minute AS
SELECT window_start, page, count(*) AS clicks, max($offset) AS newest
FROM TUMBLE(clicks, clicked_at, INTERVAL '1 minute')
WHERE $partition <> '0'
GROUP BY window_start, page
EMIT ON WINDOW CLOSE;
