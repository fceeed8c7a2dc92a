"""Error codes of running: sessions, sources, logs, views and audits, with what each means (the docs list them)."""

from __future__ import annotations

from tidegate.errors import TidegateError

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
    "TG514": "Spark that does not start, or that is gone",
    "TG515": "write to something that belongs to another environment, and is only read in this one",
    "TG531": "write to something that another project or environment owns (X3)",
    "TG532": "adoption of tables to which nobody has agreed (X3)",
    "TG516": "source or table that the environment which this one reads does not have, or has otherwise",
    "TG517": "input file that was moved after it was read; it is not read again",
    "TG518": "jar that is not the one that tidegate was made with",
    "TG550": "Kafka broker that does not answer, or refuses the login",
    "TG551": "Kafka topic that is not there",
    "TG552": "rows that Kafka's retention removed before they were read",
    "TG553": "Kafka topic that was deleted and made anew",
    "TG554": "Spark session without the Kafka connector",
    "TG555": "schema registry that does not answer, or refuses the login",
    "TG556": "schema registry that gives a schema in a form that can't be read",
    "TG541": "place of a sink that is not its own",
    "TG542": "sink whose upstream was made anew: its rows would come twice",
    "TG543": "view that would need rows beyond their retention (R5)",
    "TG561": "amendment of a view that can't be amended soundly (B2)",
    "TG562": "backfill or amendment that begins below what is kept (R5)",
    "TG563": "range whose bounds are no times of the view",
    "TG564": "what-if that can't be judged: windows over one source, and a constant delay, can be",
    "TG544": "upkeep of something that has no table",
    "TG545": "delivery to Kafka that broke off; the next run delivers what is missing",
    "TG521": "reset of a watermark that would leave some results as they are, to which nobody has agreed (W9)",
    "TG533": "drop of something with rows, to which nobody has agreed",
    "TG520": "ALTER of something that a file in assets/ defines (W13)",
}

#: What may go away by itself: another commit, a path or topic that comes later, a broker or catalog that is down.
_CURABLE = frozenset(
    {"TG502", "TG503", "TG513", "TG514", "TG550", "TG551", "TG555", "TG620", "TG621", "TG623"}
)


def is_curable(error: BaseException) -> bool:
    """Whether the same again, later or in a fresh process, may do better. tidegate's other errors are answers to what
    was asked, and come again; what is no tidegate error is worth a try."""
    return not isinstance(error, TidegateError) or error.code in _CURABLE
