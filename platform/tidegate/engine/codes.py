"""Error codes of running: sessions, sources, logs, views and audits, with what each means (the docs list them)."""

from __future__ import annotations

CODES: dict[str, str] = {
    "TG501": "Spark session without the Iceberg runtime",
    "TG502": "another run committed to the same table meanwhile; nothing of this one was kept",
    "TG503": "input path, or data set, that is not there",
    "TG504": "input file without a column that the source declares",
    "TG505": "input that changed after it was read",
    "TG506": "definition that changed since its table was made",
    "TG507": "query that Spark refuses",
    "TG508": "log that another process is writing",
    "TG509": "view where a source or table is meant",
    "TG511": "drop of something that a view or sink still reads",
    "TG512": "question about something that has no results, or no watermark",
    "TG513": "batch that broke off in Spark; nothing of it was kept",
    "TG514": "Spark does not start",
    "TG541": "place of a sink that is not its own",
    "TG542": "sink whose upstream was made anew: its rows would come twice",
    "TG520": "ALTER of something that a file in assets/ defines (W13)",
}
