"""The second runner: the engine in this process, without a JVM, for tests that take milliseconds.

DataFrames are PySpark's, over Spark Connect, and are answered by Sail in this process; tables are real Iceberg tables
in a folder, which pyiceberg writes. The engine sees the same two ports as in a user's run (`iceberg/tables.py`,
`runtime/runner.py`), and the same task functions run. What Sail can't say as Spark does is tested on Spark.
"""
