-- TG403
-- at 6:1
-- message: connector filesystem needs path
-- hint: path = 
CREATE SOURCE s (id INT)
WITH (connector = 'filesystem')
FORMAT PLAIN ENCODE JSON;
