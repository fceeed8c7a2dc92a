-- Of a view, with every clause.
CREATE SINK IF NOT EXISTS to_files FROM HOURLY
WITH (connector = 'filesystem', path = 'out/hourly', snapshot = 'false')
FORMAT PLAIN ENCODE CSV (delimiter = ';', without_header = true);

CREATE SINK to_lake FROM orders WITH (connector = 'iceberg');

CREATE SINK to_archive FROM plain WITH (connector = 'iceberg', table = 'archive.plain');

-- A query with a CTE: its WITH is not that of the options.
CREATE SINK to_screen AS
WITH big AS (SELECT * FROM orders WHERE amount > 100)
SELECT window_end, count(*) AS n FROM TUMBLE(big, ts, INTERVAL '1 hour') GROUP BY window_end
EMIT ON WINDOW CLOSE
WITH (connector = 'console', rows = 5);

-- E6: what an append-only sink delivers of a new version of its view.
CREATE SINK goes_on FROM hourly
WITH (connector = 'filesystem', path = 'out/on', on_change = 'From_Frontier') FORMAT PLAIN ENCODE CSV;

CREATE SINK replays FROM hourly WITH (connector = 'iceberg', on_change = 'replay');

SHOW SINKS;
SHOW CREATE SINK to_lake;
EXPLAIN TO_LAKE;
DROP SINK to_files;
DROP SINK IF EXISTS nothing;
