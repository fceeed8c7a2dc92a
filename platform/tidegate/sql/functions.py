"""Spark's builtin functions: which there are, and of what kind. The list is data, written from a running
Spark by infra/spark_functions.py."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Literal

Kind = Literal["scalar", "aggregate", "window", "table"]

# Only grammar in Spark, so SHOW FUNCTIONS leaves it out.
_GRAMMAR: dict[str, Kind] = {"try_cast": "scalar"}


#: Functions of the clock, of chance and of where Spark happens to run: another value each time they are asked.
UNREPEATABLE = frozenset(
    (
        "rand",
        "random",
        "randn",
        "randstr",
        "uniform",
        "uuid",
        "shuffle",
        "now",
        "current_timestamp",
        "current_date",
        "current_time",
        "curdate",
        "localtimestamp",
        "monotonically_increasing_id",
        "spark_partition_id",
        "input_file_name",
        "input_file_block_start",
        "input_file_block_length",
        "current_user",
        "session_user",
        "user",
    )
)


@cache
def spark_functions() -> dict[str, Kind]:
    """Every function by its lower-case name: scalar, aggregate, window (needs OVER) or table (yields
    rows)."""
    data = json.loads(files("tidegate.sql").joinpath("spark_functions.json").read_text("utf-8"))
    return {**_GRAMMAR, **data}


def kind_of(name: str) -> Kind | None:
    """The kind of a function, whatever the case of its name; None if Spark has none of this name."""
    return spark_functions().get(name.lower())
