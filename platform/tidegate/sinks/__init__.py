"""Final rows delivered to somewhere else, in the order of closing, each exactly once."""
