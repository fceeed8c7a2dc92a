-- TG408
-- at 5:16
-- message: "Europe/Paris"
-- hint: UTC
SET timezone = 'Europe/Paris';
