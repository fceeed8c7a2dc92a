"""`schema.evolution`: what becomes of columns of the input that a source does not declare."""

from __future__ import annotations

from tidegate.sql.options.formats import LOCATION, REGISTRY, Format
from tidegate.sql.options.option_types import ConnectorOptions, Problem

NAME = "schema.evolution"
#: Encodings whose files have a header or footer that names their columns.
_NAMED = ("parquet", "csv")


def evolution_problem(connector: ConnectorOptions, form: Format, has_key: bool) -> Problem | None:
    """Why columns can't be taken in, though the options say so."""
    if getattr(connector, "schema_evolution", "report") != "add":
        return None
    if has_key:
        message = f"{NAME} 'add' is for sources and tables without a PRIMARY KEY"
        return Problem("TG404", NAME, message, "leave it out: new columns are reported, and ALTER adds them")
    if form.encode in ("avro", "protobuf"):
        if REGISTRY in form.options and LOCATION not in form.options:
            return None
        message = (
            f"{NAME} 'add' needs {REGISTRY}: a schema file of the project changes only when it is edited"
        )
        return Problem("TG404", NAME, message, f"({REGISTRY} = 'https://…')")
    if form.encode == "json":
        return None
    if (
        form.encode in _NAMED
        and not connector.message_columns
        and form.options.get("without_header") != "true"
    ):
        return None
    message = f"{NAME} 'add' needs an input that names its columns"
    hint = f"JSON; files of PARQUET, or of CSV with a header; messages of AVRO or PROTOBUF with {REGISTRY}"
    return Problem("TG404", NAME, message, hint)
