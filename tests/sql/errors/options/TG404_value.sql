-- TG404
-- at 5:72
-- message: max_files_per_batch: expected a whole number above zero
CREATE SOURCE s (id INT)
WITH (connector = 'filesystem', path = 'data/s', max_files_per_batch = 'many')
FORMAT PLAIN ENCODE JSON;
