"""Statements as they are written: small frozen records, before any name in them is looked up."""
