"""Every error code of this room with what it means; tests/sql/errors holds one failing statement for each."""

from __future__ import annotations

from tidegate.errors import Location, TidegateError

CODES: dict[str, str] = {
    # TG1xx: the text is not a statement that we know
    "TG101": "text that is not SQL: a string, quoted name or comment that never ends, an unknown character",
    "TG102": "a word or sign where something else is expected",
    "TG103": "unknown statement",
    "TG104": "misspelt clause",
    "TG105": "part of a query that the parser can read, but tidegate does not understand",
    "TG106": "not supported yet",
    "TG107": "statement that is not allowed in an asset file",
    "TG108": "clause given twice",
    "TG109": "front matter that is not closed, or does not stand directly above a CREATE",
    # TG2xx: names and types
    "TG201": "unknown source, table or view",
    "TG202": "unknown column",
    "TG203": "ambiguous column",
    "TG204": "name already taken",
    "TG205": "reserved name",
    "TG206": "column name used twice",
    "TG207": "unknown type",
    "TG208": "type that tidegate does not support",
    "TG209": "unknown function",
    "TG210": "function in a place where it is not allowed",
    "TG211": "column that is neither grouped nor aggregated",
    "TG212": "number of values does not match the columns",
    "TG213": "column or relation whose rows cannot be inserted or changed",
    "TG214": "expression of the wrong type",
    "TG215": "wrong kind of object",
    "TG216": "column without a name",
    "TG217": "ordinal out of range",
    "TG218": "generated column that refers to itself or to a later one",
    "TG219": "generated column whose type is not known",
    "TG220": "function in a definition whose value changes from run to run (B1, W4)",
    "TG221": "function that accesses the machine: the JVM, files, or the user as whom Spark runs (X1)",
    "TG222": "function in a definition that raises an error on purpose, where NULL is required (C7)",
    # TG3xx: watermarks and windows
    "TG301": "watermark column of the wrong type (W10)",
    "TG302": "more than one WATERMARK (W10)",
    "TG303": "watermark strategy of the wrong type (W10)",
    "TG304": "WITH TTL where it is not allowed (W10)",
    "TG305": (
        "APPEND ONLY, or PRIMARY KEY and WITH TTL, missing where it is required, or given "
        "where it is not allowed (W10)"
    ),
    "TG306": "window over a relation without a watermark",
    "TG307": "window over a column that is not the watermark column",
    "TG308": "window over a column that lost its watermark (D1)",
    "TG309": "EMIT ON WINDOW CLOSE without a watermark column in GROUP BY (C6)",
    "TG310": "wrong arguments of a window function (C1)",
    "TG311": "invalid length or offset of a window",
    "TG312": "HOP size that is not a multiple of its slide (C1)",
    "TG321": "ALTER or RESET of a watermark that does not exist, or is on another column (W13, W9)",
    "TG322": "wrong arguments of WATERMARK(…) in FROM (W14)",
    "TG323": "CURRENT_WATERMARK of a column that carries no watermark (W14)",
    "TG331": "window over preceding rows that is not allowed in a watermark strategy (W11)",
    "TG351": "sink over rows that can change (a sink is append-only)",
    "TG341": "SESSION without EMIT ON WINDOW CLOSE (C3)",
    "TG342": "UNION ALL of different columns (D2)",
    "TG343": "OVER or SESSION below another operator of the same query",
    "TG344": "outer join that would have to keep the rows of a lookup table forever",
    "TG345": (
        "join with rows that have a time column but lost their watermark: they would be "
        "looked up by accident (D4)"
    ),
    "TG361": "OVER without an order in event time (C5)",
    "TG362": "window or frame of OVER that is not allowed (C5)",
    "TG363": "function that is not allowed over rows in event time (C5)",
    # TG4xx: connectors, formats and their options
    "TG401": "unknown connector",
    "TG402": "unknown option",
    "TG403": "missing option",
    "TG404": "invalid value of an option",
    "TG405": "option given twice",
    "TG406": "unknown format or encoding",
    "TG407": "option names a column that does not exist",
    "TG408": "invalid value of a session setting",
    "TG409": "unknown session setting",
    "TG410": "secret that is written out instead of given as ${NAME}",
}


def error(
    code: str, message: str, location: Location | None = None, hint: str | None = None
) -> TidegateError:
    """A `TidegateError` with a code of this registry."""
    if code not in CODES:
        raise ValueError(f"error code {code} is not in the registry")
    return TidegateError(code, message, hint=hint, location=location)


def unsupported(what: str, location: Location | None, instead: str | None = None) -> TidegateError:
    """TG106, one wording for everything that a later version of tidegate will understand."""
    return error("TG106", f"{what} is not supported yet", location, instead)
