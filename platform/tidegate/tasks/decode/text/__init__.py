"""JSON and CSV to columns, of messages and of files: one strict decoder, and one that is fast where rows are plain."""
