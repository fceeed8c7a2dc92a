"""Queries of views: flows of rows, and the Spark SQL of a slice."""
