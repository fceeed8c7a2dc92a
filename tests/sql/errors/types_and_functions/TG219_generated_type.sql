-- TG219
-- at 7:5
-- message: the type of "a" is not known
-- hint: a TIMESTAMP AS
CREATE TABLE t (
    raw TEXT,
    a AS from_json(raw, 'x INT')
);
