-- C5: the RFC's fraud example.
CREATE MATERIALIZED VIEW alerts AS
SELECT * FROM (
  SELECT customer, price, ts, lead(price, 1) OVER w AS next_price, lead(ts, 1) OVER w AS next_ts
  FROM orders WINDOW w AS (PARTITION BY customer ORDER BY ts)
)
WHERE abs(next_price - price) > 10000 AND next_ts - ts < INTERVAL '30' SECOND
EMIT ON WINDOW CLOSE;

-- Frames bounded in time keep their watermark, moved back by what they wait for (D4).
CREATE MATERIALIZED VIEW around AS
SELECT id, ts, count(*) OVER (PARTITION BY customer ORDER BY ts
  RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND INTERVAL '30' SECOND FOLLOWING EXCLUDE CURRENT ROW) AS n
FROM orders
EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW visits AS
SELECT id, ts, sum(price) OVER (PARTITION BY customer ORDER BY ts SESSION WITH GAP INTERVAL '5 minutes') AS spent
FROM orders
EMIT ON WINDOW CLOSE;

-- Integer epochs count in their own unit; without EMIT rows are shown open until their frames are complete.
CREATE MATERIALIZED VIEW recent AS
SELECT id, sum(id) OVER (ORDER BY e, id DESC RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS so_far,
  count_if(id > 3) OVER (ORDER BY e RANGE BETWEEN 100 PRECEDING AND CURRENT ROW) AS large
FROM ticks;

-- Within closed windows any function is plain SQL; ties are decided by all columns.
CREATE MATERIALIZED VIEW best AS
SELECT window_start, customer, spent FROM (
  SELECT *, row_number() OVER (PARTITION BY window_start ORDER BY spent DESC) AS place FROM (
    SELECT window_start, customer, sum(price) AS spent FROM TUMBLE(orders, ts, INTERVAL '1 hour')
    GROUP BY window_start, customer
  )
)
WHERE place <= 3
EMIT ON WINDOW CLOSE;
