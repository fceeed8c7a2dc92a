"""Live runs as jobs of Dagster: a run that lasts, its process and what its events become."""
