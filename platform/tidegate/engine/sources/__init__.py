"""Sources: connectors, and how what they read becomes rows."""
