-- TG409
-- at 5:6
-- message: there is no setting "implicit_flsh"
-- hint: did you mean "implicit_flush"?
SHOW implicit_flsh;
