"""What a group of live mode consists of: sources, views and sinks."""
