"""Data quality with Great Expectations: every view reconciled with its sources (A1), and a team's own expectations."""
