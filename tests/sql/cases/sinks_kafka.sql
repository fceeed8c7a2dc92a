CREATE SINK keyed FROM hourly
WITH (connector = 'kafka', topic = 'totals', properties.bootstrap.server = 'one:9092,two:9092', key.columns = 'window_start',
      properties.acks = 'all', properties.compression.type = 'zstd', snapshot = false)
FORMAT PLAIN ENCODE JSON;

CREATE SINK secured FROM orders
WITH (connector = 'kafka', topic = '${TOPIC}', properties.bootstrap.servers = '${KAFKA}', key.columns = 'ID', key.encode = 'TEXT',
      properties.security.protocol = 'SASL_SSL', properties.sasl.mechanism = 'PLAIN',
      properties.sasl.jaas.config = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="${KAFKA_USER}" password="${KAFKA_PASSWORD}";')
FORMAT PLAIN ENCODE JSON (timestamp_format = 'yyyy-MM-dd HH:mm:ss');

CREATE SINK upserted FROM hourly
WITH (connector = 'kafka', topic = 'totals', properties.bootstrap.server = 'one:9092', key.columns = 'window_start',
      amendments = 'Upsert')
FORMAT PLAIN ENCODE JSON;
