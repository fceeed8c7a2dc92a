-- TG215
-- at 5:6
-- message: plain is a table, not a source
-- hint: write TABLE
DROP SOURCE plain;
