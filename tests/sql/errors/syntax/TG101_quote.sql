-- TG101
-- at 6:18
-- message: this quote is never closed
SELECT id
FROM orders
WHERE customer = 'ada;
