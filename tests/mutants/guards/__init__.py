"""What must not be broken, by what it is about."""
