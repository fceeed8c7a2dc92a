-- Orders of two shops, one folder per shop, as JSON lines. A row is late if it is more than ten minutes
-- older than the newest one that its shop had sent before.
CREATE SOURCE orders (
  order_id BIGINT,
  customer VARCHAR,
  amount DECIMAL(10, 2),
  ordered_at TIMESTAMP,
  shop VARCHAR,
  WATERMARK FOR ordered_at AS ordered_at - INTERVAL '10 minutes'
) WITH (
  connector = 'filesystem',
  path = 'data/orders',
  partition.columns = 'shop'
) FORMAT PLAIN ENCODE JSON;

-- ---
-- owners: [team:shops]
-- tags: [finance]
-- columns:
--   orders: How many orders of this hour came in time.
--   revenue: Their sum, in euros.
-- freshness: 1 day
-- ---
-- Orders and revenue of each hour and shop: one row, once, when the hour is over for both shops.
CREATE MATERIALIZED VIEW orders_hourly AS
SELECT window_start, window_end, shop, count(*) AS orders, sum(amount) AS revenue
FROM TUMBLE(orders, ordered_at, INTERVAL '1 hour')
GROUP BY window_start, window_end, shop
EMIT ON WINDOW CLOSE;

-- The same for the day so far: without EMIT ON WINDOW CLOSE, rows of open days are shown and still change.
CREATE MATERIALIZED VIEW orders_daily AS
SELECT window_start, window_end, count(*) AS orders, sum(amount) AS revenue
FROM TUMBLE(orders, ordered_at, INTERVAL '1 day')
GROUP BY window_start, window_end;
