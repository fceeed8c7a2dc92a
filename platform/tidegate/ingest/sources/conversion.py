"""What Spark converts of JSON and CSV, where their one strict decoder leaves it something (`decoders.py`): nested
columns, and times in spellings whose meaning is that of Spark's own reader. Driver side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from tidegate.iceberg.layout import quote
from tidegate.tasks.decode.text.decoders import text_decoder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.sql.catalog.objects import Relation
    from tidegate.sql.options.formats import Format


def converted(frame: DataFrame, relation: Relation, system: Sequence[str]) -> DataFrame:
    """From `parsed` columns to the relation's stored ones, `_raw` and `_why`: Spark converts what was left to it, one
    column after the other, so that a row that fails names the column. `system`: columns that stay as they are."""
    from pyspark.sql import Column
    from pyspark.sql import functions as F

    assert relation.format is not None
    is_json = relation.format.encode == "json"
    options = _reader_options(relation.format) | {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_raw"}
    found, problems = [], []
    targets = text_decoder(relation).targets
    for place, target in enumerate(targets):
        value = F.col(f"c{place}") if target.arrow is not None else F.lit(None).cast(target.type)
        if not target.may_be_left:
            found.append(value)
            continue
        left = F.col(f"t{place}")
        name = "v" if target.arrow is not None else target.name
        if is_json:
            text = F.concat(F.lit("{" + json.dumps(name, ensure_ascii=False) + ":"), left, F.lit("}"))
            if target.arrow is None:
                text = F.coalesce(text, F.when(F.col("_whole"), F.col("_text")))
            read = F.from_json(text, f"{quote(name)} {target.type}, _raw string", options)
        elif target.nested:
            # The decoder has rejected what is not NULL.
            found.append(value)
            continue
        elif target.type == "binary":
            # Base64, as JSON has it: the same text gives the same bytes (X5).
            text = F.when(left.isNotNull(), F.to_json(F.struct(left.alias("v"))))
            read = F.from_json(text, "v binary, _raw string", options)
            name = "v"
        else:
            text = F.concat(F.lit('"'), F.replace(left, F.lit('"'), F.lit('""')), F.lit('"'))
            read = F.from_csv(text, f"v {target.type}, _raw string", options | {"sep": ","})
            name = "v"
        frame = frame.withColumn(f"r{place}", F.when(text.isNotNull(), read))
        row = f"r{place}"
        bad = text.isNotNull() & (F.col(row).isNull() | F.col(f"{row}._raw").isNotNull())
        value = F.coalesce(F.col(f"{row}.{quote(name)}"), value)
        if target.optional:
            # Nothing of what does not fit, and no row is rejected for it: no definition declares the column.
            found.append(F.when(~bad, value))
            continue
        problems.append(F.when(bad, F.lit(target.misfit)))
        found.append(value)
    late = F.coalesce(*problems) if problems else F.lit(None).cast("string")
    why = F.coalesce("_why", late)
    # The gate rejects a row without what it must have: a misspelled name is found in its text only (W5).
    missing = [value.isNull() for value, target in zip(found, targets, strict=True) if target.required]
    rejected = reduce(Column.__or__, missing, why.isNotNull())
    raw = F.coalesce("_raw", F.when(rejected, F.col("_text")))
    own = [value.alias(target.name) for value, target in zip(found, targets, strict=True)]
    return frame.select(*own, raw.alias("_raw"), why.alias("_why"), *system)


def _reader_options(form: Format) -> dict[str, str]:
    """Spark's reader options for a format's."""
    options = dict(form.options)
    out: dict[str, str] = {}
    if "timestamp_format" in options:
        out |= {
            "timestampFormat": options["timestamp_format"],
            "timestampNTZFormat": options["timestamp_format"],
        }
    if form.encode == "csv":
        out |= {"sep": options.get("delimiter", ","), "nullValue": options.get("null_value", "")}
        # RFC 4180: a quote inside quotes is doubled, and a backslash is a character like any other.
        out |= {"quote": '"', "escape": '"'}
    return out
