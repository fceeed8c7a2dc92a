"""Batches of a source through the gate into its log."""
