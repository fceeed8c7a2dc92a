"""Sizes in YAML: a number with a unit."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator

from tidegate.project.reading.strict import refuse

_SIZE = re.compile(r"^\s*(\d+)\s*(KB|MB|GB)\s*$", re.IGNORECASE)
_UNITS = {"kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}


def _size(value: object) -> object:
    match = _SIZE.match(value) if isinstance(value, str) else None
    if match is None or int(match.group(1)) == 0:
        raise refuse("a size needs a unit", hint="write for example 128 MB, or 1 GB")
    return int(match.group(1)) * _UNITS[match.group(2).lower()]


Bytes = Annotated[int, BeforeValidator(_size)]
