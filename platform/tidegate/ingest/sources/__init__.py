"""Connectors, and how what they read becomes rows."""
