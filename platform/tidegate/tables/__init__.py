"""Tables with a PRIMARY KEY, and WITH TTL (T rules)."""
