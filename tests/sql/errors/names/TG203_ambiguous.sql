-- TG203
-- at 5:8
-- message: "id" is in more than one relation
-- hint: o.id or p.id
SELECT id FROM orders AS o JOIN plain AS p ON o.ts = p.ts;
