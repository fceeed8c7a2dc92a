"""Closed slices of views, computed once."""
