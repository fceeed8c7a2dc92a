-- TG108
-- at 6:1
-- message: WITH is given twice
CREATE SOURCE s (id INT)
WITH (connector = 'filesystem', path = 'data/s')
WITH (max_files_per_batch = 3)
FORMAT PLAIN ENCODE JSON;
