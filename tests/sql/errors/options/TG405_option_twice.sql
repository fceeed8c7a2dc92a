-- TG405
-- at 5:50
-- message: path is given twice
CREATE SOURCE s (id INT)
WITH (connector = 'filesystem', path = 'data/s', path = 'data/t')
FORMAT PLAIN ENCODE JSON;
