-- TG361
-- at 7:52
-- message: "price" carries no watermark: a later row may come earlier in this order
-- hint: ORDER BY ts, price
CREATE MATERIALIZED VIEW v AS
SELECT id,
  lead(price) OVER (PARTITION BY customer ORDER BY price) AS next_price
FROM orders
EMIT ON WINDOW CLOSE;
