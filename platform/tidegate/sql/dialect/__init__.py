"""Text, tokens, types and expressions: what sqlglot's Spark dialect has under tidegate's names."""
