"""Live mode's supervisor: processes that work for groups, watched, restarted, stopped; health and metrics over HTTP.

No Spark here: a worker process is the same command with another option, and tells what it does as JSON lines.
"""
