"""Error codes of running: sessions, sources, logs, views and audits, with what each means (the docs list them)."""

from __future__ import annotations

from tidegate.errors import TidegateError

CODES: dict[str, str] = {
    "TG501": "Spark session without the Iceberg runtime",
    "TG502": "another run committed to the same table in the meantime; this one stored nothing",
    "TG503": "input path or data set that does not exist",
    "TG504": "input file without a column that the source declares",
    "TG505": "input that changed after it was read",
    "TG506": "definition that changed since its table was made",
    "TG507": "query that Spark refuses",
    "TG508": "log that another process is writing",
    "TG509": "view where a source or table is meant",
    "TG511": "drop or change of something that a view or sink still reads",
    "TG512": "question about something that has no results, or no watermark",
    "TG513": "batch that failed in Spark; none of its rows were stored",
    "TG514": "Spark does not start, or has stopped",
    "TG515": "write to an object that belongs to another environment, and can only be read in this one",
    "TG531": "write to an object that another project or environment owns (X3)",
    "TG532": "adoption of tables that was not confirmed (X3)",
    "TG516": (
        "source or table that is missing, or defined differently, in the environment that this one reads"
    ),
    "TG517": "input file that was moved after it was read; it is not read again",
    "TG518": "jar that differs from the one that tidegate was built with",
    "TG519": "work in live mode that took very long and did not advance",
    "TG550": "Kafka broker that does not answer, or refuses the login",
    "TG551": "Kafka topic that does not exist",
    "TG552": "rows that Kafka's retention removed before they were read",
    "TG553": "Kafka topic that is another one than the one that was read",
    "TG554": "Spark session without the Kafka connector",
    "TG555": "schema registry that does not answer, or refuses the login",
    "TG556": "schema registry that gives a schema in a form that can't be read",
    "TG536": "results of a branch that can't be promoted as they are",
    "TG541": "place of a sink that belongs to something else",
    "TG542": "sink that has delivered from another table until now: rows would be delivered twice",
    "TG543": "view that would need rows beyond their retention (R5)",
    "TG561": "amendment of a view that can't be amended correctly (B2)",
    "TG562": "backfill or amendment that begins before the oldest rows that are kept (R5)",
    "TG563": "range whose bounds are not times of the view",
    "TG564": (
        "what-if question that can't be answered: it needs windows over one source, and a constant delay"
    ),
    "TG544": "upkeep of an object that has no table",
    "TG545": "delivery to Kafka that failed; the next run delivers the missing rows",
    "TG521": "unconfirmed reset of a watermark that would leave some results unchanged (W9)",
    "TG533": "unconfirmed drop of an object with rows",
    "TG534": "plan of which a part is refused; nothing was applied (E1)",
    "TG535": "unconfirmed replacement of results by recomputed ones",
    "TG571": "erasure that can't reach every place that may have the rows; nothing was erased (E9)",
    "TG572": "unconfirmed erasure of rows (E9)",
    "TG573": "erasure, or backup, while an erasure is not finished (E9)",
    "TG520": "ALTER of an object that a file in assets/ defines (W13, E1)",
}

#: What may go away by itself: another commit or writer, a path or topic that comes later, a broker or catalog that is
#: down.
_CURABLE = frozenset(
    {
        "TG502",
        "TG503",
        "TG508",
        "TG513",
        "TG514",
        "TG519",
        "TG550",
        "TG551",
        "TG555",
        "TG620",
        "TG621",
        "TG623",
        "TG624",
    }
)


def is_curable(error: BaseException) -> bool:
    """Whether the same again, later or in a fresh process, may do better. tidegate's other errors are answers to what
    was asked, and come again; what is no tidegate error is worth a try."""
    return not isinstance(error, TidegateError) or error.curable or error.code in _CURABLE
