-- TG302
-- at 8:5
-- message: "s" has more than one WATERMARK
-- hint: keep one
CREATE SOURCE s (
    ts TIMESTAMP,
    WATERMARK FOR ts AS ts,
    WATERMARK FOR ts AS ts - INTERVAL '1 second'
) WITH (connector = 'filesystem', path = 'data/s')
FORMAT PLAIN ENCODE JSON;
