"""Windows that close again: which, what stands in their place, and what is remembered of it."""
