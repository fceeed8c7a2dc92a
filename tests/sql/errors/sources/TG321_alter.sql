-- TG321 W13: the strategy of the same column only
-- at 4:41
-- message: the watermark of "orders" is on ts, not on tz
ALTER SOURCE orders ALTER WATERMARK FOR tz AS tz - INTERVAL '1 minute';
-- hint: write WATERMARK FOR ts
