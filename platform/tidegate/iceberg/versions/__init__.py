"""Versions of a stored table (E5): one is made beside the current one, and takes its place in a commit of metadata."""
