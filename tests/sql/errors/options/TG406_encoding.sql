-- TG406
-- at 7:21
-- message: unknown encoding "JSN"
-- hint: did you mean "json"?
CREATE SOURCE s (id INT)
WITH (connector = 'filesystem', path = 'data/s')
FORMAT PLAIN ENCODE JSN;
