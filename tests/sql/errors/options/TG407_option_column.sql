-- TG407
-- at 6:70
-- message: partition.columns: there is no column "idd"
-- hint: did you mean "id"?
CREATE SOURCE s (id INT)
WITH (connector = 'filesystem', path = 'data/s', partition.columns = 'idd')
FORMAT PLAIN ENCODE JSON;
