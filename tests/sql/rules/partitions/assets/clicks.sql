CREATE SOURCE clicks (
  page VARCHAR,
  at TIMESTAMP,
  shard VARCHAR,
  WATERMARK FOR at AS at - INTERVAL '10 minutes'
) WITH (connector = 'filesystem', path = 'data/clicks', partition.columns = 'shard') FORMAT PLAIN ENCODE JSON;

CREATE MATERIALIZED VIEW clicks_hourly AS
SELECT window_start, count(*) AS n
FROM TUMBLE(clicks, at, INTERVAL '1 hour')
GROUP BY window_start
EMIT ON WINDOW CLOSE;
