"""Questions about logs and views: do all counts agree (A1), and what would another delay cost?"""
