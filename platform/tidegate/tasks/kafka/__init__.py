"""Kafka's messages, read by the tasks that judge them. Executor side."""
