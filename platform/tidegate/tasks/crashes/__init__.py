"""Which rows end the process that decodes them (X2)."""
