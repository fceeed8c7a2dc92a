"""What will run, as a list of stages; explain prints the same stages, and events report their progress."""
