"""Amendments and backfills of views, in the order in which one follows from the other."""
