"""Changed definitions (E1–E7): what differs, what is changed in place, and who reads it."""
