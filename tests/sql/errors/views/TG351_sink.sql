-- TG351 a sink is append-only
-- at 4:25
-- message: the rows of "deposits" change
CREATE SINK export FROM deposits
WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE JSON;
-- hint: a view over deposits with EMIT ON WINDOW CLOSE
