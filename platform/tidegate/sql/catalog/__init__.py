"""Definitions (`objects`), the system tables that follow from them, and the catalog that holds them by name."""
