"""Statements whose every name and type is resolved: what the engine runs."""
