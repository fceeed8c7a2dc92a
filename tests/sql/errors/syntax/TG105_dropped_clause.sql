-- TG105
-- at 4:27
-- message: "UPDATE" is not understood here
SELECT id FROM orders FOR UPDATE;
