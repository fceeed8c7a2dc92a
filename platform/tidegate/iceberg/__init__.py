"""Commits with a fence, snapshots, files, properties: the room that knows Iceberg's Java."""
