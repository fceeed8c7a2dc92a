"""Jobs and their schedules: up to date, upkeep, clean-ups, amendments, rebuilds, old runs."""
