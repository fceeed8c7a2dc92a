"""A decoder that really ends its process: over a text with KILL in it, or over so many texts at once."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.engine.sources.bulk import Part
from tidegate.engine.sources.text import JsonDecoder


@dataclass
class KillingDecoder(JsonDecoder):
    """`most`: more texts than that are too many for it."""

    most: int = 1 << 30

    def plain(self, text: pa.Array, places: np.ndarray) -> tuple[list[Part], np.ndarray]:
        if len(text) > self.most or any("KILL" in one for one in text.to_pylist()):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().plain(text, places)


def killing(made: Any, most: int = 1 << 30) -> KillingDecoder:
    """As the decoder that was made."""
    assert isinstance(made, JsonDecoder)
    return KillingDecoder(made.targets, made.insensitive, made.limits, most=most)


def refuse(values: Any) -> None:
    """As a decoder whose registry does not answer."""
    print("to standard output")
    raise ValueError


def no_memory(values: Any) -> None:
    """As one that has come to the limit of its memory."""
    raise MemoryError


class Unreadable:
    """What can be sent, and not be received."""

    def __call__(self, values: Any) -> None:
        raise AssertionError

    def __reduce__(self) -> Any:
        return (int, ("no number",))
