-- TG303
-- at 8:25
-- message: this is INT, but ts is TIMESTAMP
-- hint: CAST(… AS TIMESTAMP)
CREATE SOURCE s (
    id INT,
    ts TIMESTAMP,
    WATERMARK FOR ts AS id + 1
) WITH (connector = 'filesystem', path = 'data/s')
FORMAT PLAIN ENCODE JSON;
