"""AVRO and PROTOBUF to columns, and the registries that have their schemas."""
