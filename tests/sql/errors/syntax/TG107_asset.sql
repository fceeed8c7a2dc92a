-- TG107
-- at 7:1
-- message: INSERT can't be in an asset file
-- hint: tidegate sql
-- how: assets
CREATE TABLE t (id INT);
INSERT INTO t VALUES (1);
