-- TG401
-- at 6:19
-- message: unknown connector 'filesytem'
-- hint: did you mean "filesystem"?
CREATE SOURCE s (id INT)
WITH (connector = 'filesytem', path = 'data/s')
FORMAT PLAIN ENCODE JSON;
