"""Rows of Parquet files, read inside a task: what a declared type can hold, and nothing else (X5)."""
