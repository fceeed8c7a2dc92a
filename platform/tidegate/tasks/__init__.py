"""What runs inside a task, on Arrow (judge, write, panes, sessions), and how a task gets into a DataFrame.

This file imports nothing: executors import `tidegate.tasks.gate` and must not need more than numpy and pyarrow for it.
"""
