-- TG301
-- at 7:19
-- message: "ts" is VARCHAR: a watermark needs TIMESTAMP, TIMESTAMPTZ, DATE or an integer
-- hint: CAST(ts AS TIMESTAMP)
CREATE SOURCE s (
    ts VARCHAR,
    WATERMARK FOR ts AS ts
) WITH (connector = 'filesystem', path = 'data/s')
FORMAT PLAIN ENCODE JSON;
