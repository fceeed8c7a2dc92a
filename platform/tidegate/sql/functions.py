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


@cache
def spark_functions() -> dict[str, Kind]:
    """Every function by its lower-case name: scalar, aggregate, window (needs OVER) or table (yields
    rows)."""
    data = json.loads(files("tidegate.sql").joinpath("spark_functions.json").read_text("utf-8"))
    return {**_GRAMMAR, **data}


def kind_of(name: str) -> Kind | None:
    """The kind of a function, whatever the case of its name; None if Spark has none of this name."""
    return spark_functions().get(name.lower())
