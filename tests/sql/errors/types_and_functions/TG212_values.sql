-- TG212
-- at 7:15
-- message: 3 values for 2 columns
-- hint: the columns are id, ts
INSERT INTO plain VALUES
    (1, NULL),
    (2, NULL, 3);
