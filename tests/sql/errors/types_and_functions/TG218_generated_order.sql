-- TG218
-- at 7:14
-- message: "b" is computed from c, which comes later
-- hint: define c before it
CREATE TABLE t (
    a INT,
    b INT AS c + 1,
    c INT AS a + 1
);
