"""Questions asked of logs and views: does everything add up (A1), and what would another delay cost."""
