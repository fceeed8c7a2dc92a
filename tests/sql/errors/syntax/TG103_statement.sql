-- TG103
-- at 5:1
-- message: unknown statement "INSRT"
-- hint: did you mean "INSERT"?
INSRT INTO plain VALUES (1, NULL);
