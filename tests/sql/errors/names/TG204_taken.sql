-- TG204
-- at 5:14
-- message: "plain" exists already
-- hint: IF NOT EXISTS
CREATE TABLE plain (id INT);
