"""Decoders of groups that harm the worker they share with others, over a text with one of these words in it: HANG (they
never come back), HOARD (what they keep stays in the worker for good) and MUCH (they want more than a worker may have).

As `tests.runtime.killing`, they are patched into the process that runs groups, and pickled into its tasks.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from tidegate.ingest.sources import decode, file_rows
from tidegate.tasks.decode.text import arrow_json
from tidegate.tasks.decode.text import files as text_files
from tidegate.tasks.decode.text.bulk import ParsedPart
from tidegate.tasks.decode.text.decoders import JsonDecoder

HANG, HOARD, MUCH = "HANG", "HOARD", "MUCH"
#: What is kept of each HOARD; none of it is memory of the machine, since nobody writes into it.
HOARDED = 256 << 20
#: Of the worker's process, as long as that lives.
KEPT: list[bytearray] = []


@dataclass
class HarmfulDecoder(JsonDecoder):
    """`who`: a file that gets a line for each of its uses: the process, what it has kept before, and what it did."""

    who: str = ""

    def plain(self, text: pa.Array, places: np.ndarray) -> tuple[list[ParsedPart], np.ndarray]:
        said = " ".join(str(one) for one in text.to_pylist())
        word = next((word for word in (HANG, HOARD, MUCH) if word in said), "plain")
        with open(self.who, "a") as file:
            file.write(f"{os.getpid()} {len(KEPT)} {word}\n")
        while word == HANG:
            pass
        if word == HOARD:
            KEPT.append(bytearray(HOARDED))
        if word == MUCH:
            bytearray(limit())
        return super().plain(text, places)


def limit() -> int:
    """What this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    assert soft != resource.RLIM_INFINITY
    return soft


@contextmanager
def harmful(who: Path) -> Iterator[None]:
    """While the block runs, every decoder of JSON that is made is such a one."""
    made = decode.text_decoder

    def makes(*given: Any) -> Any:
        found = made(*given)
        assert isinstance(found, JsonDecoder)
        return HarmfulDecoder(found.targets, found.insensitive, found.limits, who=str(who))

    with ExitStack() as stack:
        for module in (arrow_json, decode, file_rows, text_files):
            stack.enter_context(patch.object(module, "text_decoder", makes))
        yield


def used(who: Path) -> list[tuple[int, int, str]]:
    """Process, number of what it had kept, and word of each use."""
    lines = who.read_text().splitlines() if who.is_file() else []
    return [(int(pid), int(kept), word) for pid, kept, word in (line.split() for line in lines)]
