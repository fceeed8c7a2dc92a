-- TG402
-- at 6:33
-- message: connector filesystem has no option "paht"
-- hint: did you mean "path"?
CREATE SOURCE s (id INT)
WITH (connector = 'filesystem', paht = 'data/s')
FORMAT PLAIN ENCODE JSON;
