-- TG213
-- at 5:13
-- message: "orders" is a source
-- hint: use INSERT INTO with a table
INSERT INTO orders SELECT * FROM orders;
