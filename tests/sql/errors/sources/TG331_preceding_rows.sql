-- TG331
-- at 7:5
-- message: without a frame, this would have to remember every earlier row
-- hint: ROWS BETWEEN 10 PRECEDING AND CURRENT ROW
CREATE TABLE t (
    ts TIMESTAMP, WATERMARK FOR ts AS
    max(ts) OVER ()
) APPEND ONLY;
