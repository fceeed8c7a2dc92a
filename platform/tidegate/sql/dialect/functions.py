"""Spark's builtin functions: which there are, and of what kind. The list is data, written from a running
Spark by infra/spark_functions.py."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Literal

Kind = Literal["scalar", "aggregate", "window", "table"]

#: What a function reaches. `pure`: its arguments. `varying`: also the clock, chance or where Spark happens to run,
#: so that it has another value each time it is asked. `machine`: the JVM, files, or the person as whom it runs (X1).
#: `failing`: its arguments; it stops Spark's job over some of them, and is asked so that it yields NULL there (C7,
#: attempts.py). `throwing`: it stops Spark's job on purpose, which no definition has.
Reach = Literal["pure", "varying", "machine", "failing", "throwing"]

# Only grammar in Spark, so SHOW FUNCTIONS leaves it out.
_GRAMMAR: dict[str, tuple[Kind, Reach]] = {"try_cast": ("scalar", "pure")}


@cache
def _classified() -> dict[str, tuple[Kind, Reach]]:
    data = json.loads(files("tidegate.sql.dialect").joinpath("spark_functions.json").read_text("utf-8"))
    return _GRAMMAR | {name: (kind, reach) for name, (kind, reach) in data.items()}


@cache
def spark_functions() -> dict[str, Kind]:
    """Every function by its lower-case name: scalar, aggregate, window (needs OVER) or table (yields
    rows)."""
    return {name: kind for name, (kind, _) in _classified().items()}


def kind_of(name: str) -> Kind | None:
    """The kind of a function, whatever the case of its name; None if Spark has none of this name."""
    return spark_functions().get(name.lower())


def reach_of(name: str) -> Reach:
    """What a function reaches, whatever the case of its name. One that nobody has classified counts as `machine`."""
    return _classified().get(name.lower(), ("scalar", "machine"))[1]
