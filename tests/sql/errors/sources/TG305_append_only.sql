-- TG305
-- at 7:5
-- message: table "t" has a watermark but is not APPEND ONLY
-- hint: write APPEND ONLY
CREATE TABLE t (
    ts TIMESTAMP,
    WATERMARK FOR ts AS ts
);
