"""What pyiceberg works out of an Avro schema, worked out once: every manifest has one of a few schemas, and reading and
writing the few rows below it costs less than that."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from pyiceberg.avro import file as avro
from pyiceberg.schema import Schema
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

_AT_MOST = 1_000


@lru_cache(_AT_MOST)
def _schema_of(text: str) -> Schema:
    return AvroSchemaConversion().avro_to_iceberg(json.loads(text))


def _get_schema(header: avro.AvroFileHeader) -> Schema:
    if avro._SCHEMA_KEY not in header.meta:
        raise ValueError("No schema found in Avro file headers")
    return _schema_of(header.meta[avro._SCHEMA_KEY])


def _once(make: Callable[..., Any]) -> Callable[..., Any]:
    """As a function of schemas that last as long as the process, and of what stands for the types in them. Its results
    keep nothing of what they are used for."""
    known: dict[Any, tuple[Any, Any]] = {}

    def made(*given: Any) -> Any:
        key = tuple(tuple(one.items()) if isinstance(one, dict) else id(one) for one in given)
        if key not in known:
            if len(known) >= _AT_MOST:
                known.clear()
            # What is kept alive has its id for itself.
            known[key] = given, make(*given)
        return known[key][1]

    return made


def work_out_once() -> None:
    """From now on, in this process."""
    avro.AvroFileHeader.get_schema = _get_schema  # type: ignore[method-assign]
    avro.construct_reader = _once(avro.construct_reader)
    avro.resolve_reader = _once(avro.resolve_reader)
