"""From the bytes of a message to a relation's columns, for every encoding of messages.

JSON and CSV are read by one strict decoder (`decoders.py`), which files use, too (X5); what it leaves of them (nested
columns, times in unusual spellings) Spark converts. AVRO and PROTOBUF are read by their libraries (`binary.py`). Rows
keep their order and their tasks, and a message that is no row is one all the same: with a reason in `_why` and its text
in `_raw` (W5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidegate.iceberg.layout import quote
from tidegate.ingest.sources.conversion import converted
from tidegate.tasks.crashes.crashes import Decode, Parse, Work
from tidegate.tasks.decode.binary.avro import avro_decoder
from tidegate.tasks.decode.binary.messages import DecodeTask
from tidegate.tasks.decode.binary.protobuf import protobuf_decoder
from tidegate.tasks.decode.columns import required_columns, stored_columns, wanted_of
from tidegate.tasks.decode.limits import Limits, limits_of
from tidegate.tasks.decode.reasons import NULL_VALUE
from tidegate.tasks.decode.text.bulk import parsed, parsed_fields
from tidegate.tasks.decode.text.decoders import text_decoder
from tidegate.tasks.decode.text.json_members import JsonNames, MembersLook
from tidegate.tasks.reading import LOOKED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from tidegate.project import Project
    from tidegate.sql.catalog.objects import Relation

#: Inside: a relation may have a column of almost any other name.
_VALUE, _ROW = "_decode_value", "_decode_row"


def decode(
    frame: DataFrame,
    relation: Relation,
    project: Project,
    environ: Mapping[str, str] | None = None,
    looks: bool = False,
) -> DataFrame:
    """The relation's stored columns, `_raw` and `_why` in the place of `value`; all other columns as they are. `looks`:
    of JSON, with a column `LOOKED`.

    `_why` is NULL for a row, else `null_value`, `invalid_utf8`, `unparseable: …` or `unknown_schema`; `_raw` is then
    the text of the message (`base64:…` where it is not text), NULL for a message without a value. A row that the gate
    will reject, since a column that it must have is NULL, has `_raw`, too. Schemas come from the
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
    return decode_text(frame, relation, limits_of(project), looks)


def decode_text(frame: DataFrame, relation: Relation, limits: Limits, looks: bool = False) -> DataFrame:
    """JSON and CSV, as `decode`. A row that is no row has whatever columns could be read."""
    from pyspark.sql import functions as F

    system = [quote(name) for name in frame.columns if name != "value"]
    decoder = text_decoder(relation, limits)
    fields = [f"{name}: {kind}" for name, kind in parsed_fields(decoder.targets)]
    known = JsonNames.of(relation) if looks else None
    if looks:
        fields.append(f"{quote(LOOKED)}: string")

    def work(messages: Iterator[pa.Array]) -> Iterator[pa.Array]:
        look = MembersLook(known) if known is not None else None
        for batch in messages:
            found = parsed(decoder, batch)
            if look is not None:
                found[LOOKED] = look.column(batch)
            yield pa.StructArray.from_arrays(list(found.values()), list(found))

    function = _function(work, fields)
    row = frame.select(function(F.col("value")).alias(_ROW), *system)
    beside = [*system, quote(LOOKED)] if looks else system
    return converted(row.select(f"{_ROW}.*", *system), relation, beside)


def decoding_work(relation: Relation, project: Project) -> Work:
    """What decodes messages of the relation in a process of its own (`crashes.py`). Driver side."""
    assert relation.format is not None
    encode = relation.format.encode
    if encode in ("avro", "protobuf"):
        return Decode(_task(relation, project, None))
    return Parse(text_decoder(relation, limits_of(project)))


def _binary(
    inside: DataFrame,
    relation: Relation,
    project: Project,
    environ: Mapping[str, str] | None,
    system: list[str],
) -> DataFrame:
    """AVRO and PROTOBUF. Only the values go through Python; what else a row has stays in the JVM."""
    from pyspark.sql import functions as F

    columns = stored_columns(relation)
    fields = [*(f"c{i}: {c.type}" for i, c in enumerate(columns)), "_raw: string", "_why: string"]
    function = _function(_task(relation, project, environ), fields)
    row = inside.select(function(F.col(_VALUE)).alias(_ROW), *system)
    found = [F.col(f"{_ROW}.c{i}").alias(c.name) for i, c in enumerate(columns)]
    return row.select(*found, F.col(f"{_ROW}._raw"), F.col(f"{_ROW}._why"), *system)


def _function(
    work: Callable[[Iterator[pa.Array]], Iterator[pa.Array]], fields: Sequence[str]
) -> Callable[[Any], Any]:
    """`work` as a function of Spark's: from a column of messages to one of structs with these fields."""
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]  # PySpark's own types leave it out

    # A plain function with these hints: that is how Spark knows that it takes and gives iterators of arrays.
    def run(messages: Iterator[pa.Array]) -> Iterator[pa.Array]:
        return work(messages)

    function: Callable[[Any], Any] = arrow_udf(run, f"struct<{', '.join(fields)}>")
    return function


def _task(relation: Relation, project: Project, environ: Mapping[str, str] | None) -> DecodeTask:
    """What decodes AVRO and PROTOBUF. Its schemas are looked up here, on the driver, and go along with it."""
    assert relation.format is not None
    make = avro_decoder if relation.format.encode == "avro" else protobuf_decoder
    wanted = wanted_of(stored_columns(relation), required_columns(relation))
    return DecodeTask(make(relation, wanted, project, environ), wanted)
