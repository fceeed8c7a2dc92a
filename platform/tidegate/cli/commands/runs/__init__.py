"""Commands that change tables: run, follow, amend, rebuild, clean up, compact, adopt, and statements of SQL."""
