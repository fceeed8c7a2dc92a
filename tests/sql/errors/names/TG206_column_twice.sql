-- TG206
-- at 4:25
-- message: column "ID" is given twice
CREATE TABLE t (id INT, ID TEXT);
