"""Compaction, expiry, orphan files, retention."""
