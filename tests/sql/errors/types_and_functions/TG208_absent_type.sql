-- TG208
-- at 5:23
-- message: there is no type TIME
-- hint: time of day
CREATE TABLE t (opens TIME);
