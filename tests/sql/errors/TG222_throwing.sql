-- TG222
-- at 7:1
-- message: xpath_string() fails on a text that is no XML
-- hint: get_json_object(…) yields NULL
CREATE MATERIALIZED VIEW v AS
SELECT id, ts,
xpath_string(customer, 'order/place') AS place
FROM orders
EMIT ON WINDOW CLOSE;
