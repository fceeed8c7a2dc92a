-- Money in and out.
CREATE TABLE payments (id BIGINT, amount DECIMAL(10, 2), ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;

CREATE MATERIALIZED VIEW hourly AS
SELECT window_end, sum(amount) AS total FROM TUMBLE(payments, ts, INTERVAL '1 hour') GROUP BY window_end;

-- What accounting reads.
CREATE SINK to_accounting FROM hourly
WITH (connector = 'filesystem', path = 'out/hourly') FORMAT PLAIN ENCODE CSV (delimiter = ';');

CREATE SINK archive FROM payments WITH (connector = 'iceberg', table = 'archive.payments', snapshot = false);

CREATE SINK daily AS
SELECT window_start, count(*) AS payments FROM TUMBLE(payments, ts, INTERVAL '1 day') GROUP BY window_start
EMIT ON WINDOW CLOSE
WITH (connector = 'console', rows = 5);

CREATE SINK announced FROM hourly
WITH (connector = 'kafka', topic = 'totals', key.columns = 'window_end', properties.bootstrap.server = '${KAFKA}',
      properties.security.protocol = 'SASL_SSL', properties.sasl.mechanism = 'SCRAM-SHA-512',
      properties.sasl.jaas.config = 'ScramLoginModule required username="${KAFKA_USER}" password="${KAFKA_PASSWORD}";')
FORMAT PLAIN ENCODE JSON;

CREATE SINK corrected FROM hourly WITH (connector = 'iceberg', amendments = 'upsert');

CREATE SINK corrections FROM hourly
WITH (connector = 'kafka', topic = 'totals', key.columns = 'window_end', properties.bootstrap.server = 'kafka:9092',
      amendments = 'upsert')
FORMAT PLAIN ENCODE JSON;
