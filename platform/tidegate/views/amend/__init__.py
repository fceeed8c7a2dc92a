"""Amendments, rebuilds, and what another delay would give."""
