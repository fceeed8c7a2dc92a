"""The prompt of `tidegate sql`."""
