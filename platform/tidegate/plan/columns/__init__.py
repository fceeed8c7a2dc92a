"""Columns of logs: how definitions change them, and those of the input that no definition has."""
