"""One file per command. Whatever takes time to import is imported inside the command."""
