"""Commands about a project as it is written: make one, check, explain, test, describe and show it."""
