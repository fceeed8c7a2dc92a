"""From the bytes of a message to a relation's columns, for every encoding of messages.

JSON and CSV are read by Spark's own parsers, in the JVM; AVRO and PROTOBUF by their libraries, column by column into
Arrow (`binary.py`). Either way rows keep their order and their tasks, and a message that is no row is one all the same:
with a reason in `_why` and its text in `_raw` (W5). Plain JSON can do without (`arrow_json.py`), and says the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.engine.layout import quote
from tidegate.engine.sources.binary import BASE64, INVALID_UTF8, NULL_VALUE, UNPARSEABLE
from tidegate.engine.sources.files import reader_options, stored_columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from tidegate.project import Project
    from tidegate.sql.catalog import Relation

_WHITESPACE = " \t\r\n"
#: Inside: a relation may have a column of almost any other name.
_VALUE, _TEXT, _ROW = "_decode_value", "_decode_text", "_decode_row"


def decode(
    frame: DataFrame, relation: Relation, project: Project, environ: Mapping[str, str] | None = None
) -> DataFrame:
    """The relation's stored columns, `_raw` and `_why` in the place of `value`; all other columns as they are.

    `_why` is NULL for a row, else `null_value`, `invalid_utf8`, `unparseable` or `unknown_schema`; `_raw` is then the
    text of the message (`base64:…` where it is not text), NULL for a message without a value. Schemas come from the
    project's files and registries: call it after the batch is planned, so that a registry knows what its messages
    were written with. `environ`: for `${NAME}`, the process environment by default. Raises TG555, TG556, TG606, TG611.
    """
    from pyspark.sql import functions as F

    assert relation.format is not None
    system = [quote(name) for name in frame.columns if name != "value"]
    inside = frame.select(F.col("value").alias(_VALUE), *system)
    encode = relation.format.encode
    if encode in ("avro", "protobuf"):
        return _binary(inside, relation, project, environ, system)
    if encode == "bytes":
        (column,) = stored_columns(relation)
        why = F.when(F.col(_VALUE).isNull(), F.lit(NULL_VALUE))
        raw = F.lit(None).cast("string")
        return inside.select(F.col(_VALUE).alias(column.name), raw.alias("_raw"), why.alias("_why"), *system)
    return _text(inside, relation, system)


def _text(inside: DataFrame, relation: Relation, system: list[str]) -> DataFrame:
    """JSON and CSV. A row that is no row has whatever columns could be read, as in files."""
    from pyspark.sql import functions as F

    assert relation.format is not None
    is_json = relation.format.encode == "json"
    fields = [f"{quote(c.name)} {c.type}" for c in stored_columns(relation)]
    options = reader_options(relation.format) | {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_raw"}
    schema = ", ".join([*fields, "_raw string"])
    text = F.col(_TEXT)
    if is_json:
        row = F.from_json(text, schema, options)
    else:
        # A line may bring its own end.
        row = F.from_csv(F.regexp_replace(text, r"\r?\n\z", ""), schema, options)
    valid = F.is_valid_utf8(text)
    # Spark's parsers run once for each row, and not over what is no text.
    parsed = inside.select("*", F.col(_VALUE).cast("string").alias(_TEXT)).select(
        F.when(valid, row).alias(_ROW), "*"
    )
    broken = F.col(_ROW).isNull() | F.col(f"{_ROW}._raw").isNotNull()
    alone = _is_one_object(text, options) if is_json else F.trim(text, F.lit(_WHITESPACE)) != ""
    why = (
        F.when(F.col(_VALUE).isNull(), F.lit(NULL_VALUE))
        .when(~valid, F.lit(INVALID_UTF8))
        .when(broken | ~alone, F.lit(UNPARSEABLE))
    )
    judged = parsed.select(
        *[F.col(f"{_ROW}.{quote(c.name)}") for c in stored_columns(relation)],
        why.alias("_why"),
        _TEXT,
        _VALUE,
        *system,
    )
    # Without the line breaks that Spark puts into it.
    encoded = F.concat(F.lit(BASE64), F.translate(F.base64(F.col(_VALUE)), "\r\n", ""))
    raw = F.when(F.col("_why") == INVALID_UTF8, encoded).when(F.col("_why") == UNPARSEABLE, text)
    names = [quote(c.name) for c in stored_columns(relation)]
    return judged.select(*names, raw.alias("_raw"), "_why", *system)


def _is_one_object(text: Column, options: Mapping[str, str]) -> Column:
    """Whether a text that parses as JSON is one object and nothing else. Spark's parser takes the first value, and an
    array of objects for its first; what stands behind is lost without a word."""
    from pyspark.sql import functions as F

    trimmed = F.trim(text, F.lit(_WHITESPACE))
    # One brace closes, at the end: that is all of a flat object. Only others are read a second time.
    flat = F.locate("}", trimmed) == F.length(trimmed)
    strict = {name: value for name, value in options.items() if name != "columnNameOfCorruptRecord"}
    listed = F.from_json(F.concat(F.lit("["), trimmed, F.lit("]")), "array<string>", strict)
    return F.startswith(trimmed, F.lit("{")) & (flat | F.coalesce(F.size(listed) == 1, F.lit(False)))


def _binary(
    inside: DataFrame,
    relation: Relation,
    project: Project,
    environ: Mapping[str, str] | None,
    system: list[str],
) -> DataFrame:
    """AVRO and PROTOBUF. Only the values go through Python; what else a row has stays in the JVM."""
    from pyspark.sql import functions as F

    from tidegate.engine.sources.binary import decoding_function

    columns = stored_columns(relation)
    function = decoding_function(relation, project, environ)
    row = inside.select(function(F.col(_VALUE)).alias(_ROW), *system)
    found = [F.col(f"{_ROW}.c{i}").alias(c.name) for i, c in enumerate(columns)]
    return row.select(*found, F.col(f"{_ROW}._raw"), F.col(f"{_ROW}._why"), *system)
