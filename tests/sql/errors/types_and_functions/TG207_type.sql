-- TG207
-- at 6:28
-- message: unknown type "BITINT"
-- hint: did you mean "BIGINT"?
CREATE TABLE t (
    detail STRUCT<a INT, b BITINT>
);
