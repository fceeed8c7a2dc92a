"""Bytes to columns, and to rejected rows with their reasons (X5, W5)."""
