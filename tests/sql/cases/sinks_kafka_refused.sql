CREATE SINK s FROM hourly WITH (connector = 'kafka', properties.bootstrap.server = 'k:9092') FORMAT PLAIN ENCODE JSON
----
CREATE SINK s FROM hourly WITH (connector = 'kafka', topic = 't') FORMAT PLAIN ENCODE JSON
----
CREATE SINK s FROM hourly WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = 'k:9092')
----
CREATE SINK s FROM hourly WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = 'k:9092') FORMAT PLAIN ENCODE PARQUET
----
CREATE SINK s FROM hourly WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = 'k:9092') FORMAT PLAIN ENCODE AVRO
----
CREATE SINK s FROM hourly WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = 'k:9092') FORMAT UPSERT ENCODE JSON
----
CREATE SINK s FROM hourly WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = 'k:9092', key.columns = 'window_strat') FORMAT PLAIN ENCODE JSON
----
CREATE SINK s FROM hourly WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = 'k:9092', key.columns = 'window_start, WINDOW_START') FORMAT PLAIN ENCODE JSON
----
CREATE SINK s FROM hourly WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = 'k:9092', key.encode = 'text') FORMAT PLAIN ENCODE JSON
----
CREATE SINK s FROM hourly WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = 'k:9092', key.columns = 'window_start', key.encode = 'avro') FORMAT PLAIN ENCODE JSON
----
CREATE SINK s FROM hourly WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = 'k:9092', keys.columns = 'window_start') FORMAT PLAIN ENCODE JSON
----
CREATE SINK s FROM hourly WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = 'k:9092', properties.acks = '1') FORMAT PLAIN ENCODE JSON
----
CREATE SINK s FROM hourly WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = 'k:9092', properties.enable.idempotence = 'false') FORMAT PLAIN ENCODE JSON
----
CREATE SINK s FROM hourly WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = 'k:9092', properties.transactional.id = 'x') FORMAT PLAIN ENCODE JSON
----
CREATE SINK s FROM hourly WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = 'k:9092', properties.value.serializer = 'x') FORMAT PLAIN ENCODE JSON
----
CREATE SINK s FROM hourly WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = 'k:9092', properties.ssl.key.password = 'hush') FORMAT PLAIN ENCODE JSON
----
CREATE SINK s FROM hourly WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = 'k:9092', scan.startup.mode = 'latest') FORMAT PLAIN ENCODE JSON
----
CREATE SINK s FROM hourly WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = 'k:9092', amendments = 'upsert') FORMAT PLAIN ENCODE JSON
----
CREATE SINK s AS SELECT window_start, window_end, id, count(*) AS n FROM TUMBLE(orders, ts, INTERVAL '1 hour')
GROUP BY window_start, window_end, id EMIT ON WINDOW CLOSE
WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = 'k:9092', key.columns = 'id', amendments = 'upsert') FORMAT PLAIN ENCODE JSON
----
CREATE SINK s AS SELECT id, window_end, count(*) AS n FROM SESSION(orders, ts, id, INTERVAL '1 hour')
GROUP BY id, window_end EMIT ON WINDOW CLOSE
WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = 'k:9092', key.columns = 'window_end', amendments = 'upsert') FORMAT PLAIN ENCODE JSON
