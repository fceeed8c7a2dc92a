"""Commands that change tables: run, follow, amend, rebuild, clean up, compact, erase, adopt, and statements of SQL."""
