-- TG344
-- at 7:15
-- message: FULL JOIN would have to keep the rows of "p", which has no time, forever
-- hint: LEFT JOIN
CREATE MATERIALIZED VIEW v AS
SELECT o.id
FROM orders o FULL JOIN plain p ON o.id = p.id
EMIT ON WINDOW CLOSE;
