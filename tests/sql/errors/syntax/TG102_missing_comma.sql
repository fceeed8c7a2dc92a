-- TG102
-- at 7:5
-- message: expected "," or ")" after the column
-- hint: is a comma missing?
CREATE TABLE t (
    price DOUBLE PRECISION
    order_time TIMESTAMP
);
