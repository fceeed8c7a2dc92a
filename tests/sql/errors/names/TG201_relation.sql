-- TG201
-- at 5:16
-- message: there is no source, table or view "order"
-- hint: did you mean "orders"?
SELECT id FROM order;
