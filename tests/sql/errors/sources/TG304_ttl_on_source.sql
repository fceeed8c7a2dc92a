-- TG304
-- at 7:28
-- message: not for sources
-- hint: leave it out
CREATE SOURCE s (
    ts TIMESTAMP,
    WATERMARK FOR ts AS ts WITH TTL
) WITH (connector = 'filesystem', path = 'data/s')
FORMAT PLAIN ENCODE JSON;
