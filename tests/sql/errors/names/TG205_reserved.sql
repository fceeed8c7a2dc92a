-- TG205
-- at 7:5
-- message: "_offset" is reserved
-- hint: use offset
CREATE TABLE t (
    id INT,
    _offset BIGINT
);
