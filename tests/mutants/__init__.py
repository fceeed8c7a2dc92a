"""The mutation check: guards of the engine are broken one by one, and each time a test has to fail (`make mutants`).

`rows.py`, `commits.py` and `bounds.py` have the guards, `run.py` is the script.
"""
