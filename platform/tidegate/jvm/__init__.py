"""Spark's start on this machine, its jars, Java's classes, and what Spark says when it fails."""
