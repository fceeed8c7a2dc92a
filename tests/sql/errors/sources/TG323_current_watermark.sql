-- TG323 W14: CURRENT_WATERMARK is about the column that WATERMARK FOR names
-- at 4:8
-- message: "tz" carries no watermark here
SELECT CURRENT_WATERMARK(tz) FROM orders;
-- hint: write CURRENT_WATERMARK(ts)
