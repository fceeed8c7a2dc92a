"""The Python API, and what each statement does."""
