"""The real stack on one machine, without Docker: PostgreSQL, Kafka, Dagster's webserver, daemon and code server."""
