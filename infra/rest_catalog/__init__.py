"""A real Iceberg REST catalog on loopback: Iceberg's own adapter over HTTP, on a JDBC catalog in SQLite."""
