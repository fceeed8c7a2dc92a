"""The files of `jobs/`: schedules, live runs, thresholds, alerts, maintenance, amendments."""
