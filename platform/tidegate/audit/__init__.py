"""Questions about logs and views: do all counts agree (A1), and what would another delay cost? And files: are all of
them there, and a copy of them (`tidegate backup`)."""
