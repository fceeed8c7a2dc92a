"""The room that runs things: gate, log, slices, sources. The only room below `audit` that needs a JVM.

This file imports nothing: Spark executors import `tidegate.engine.gate` and must not need more than
numpy and pyarrow for it.
"""
