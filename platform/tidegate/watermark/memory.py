"""What a strategy remembers of a partition's earlier rows: int64s while rows are judged, short text between batches."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np


class Memory:
    """Never changed once made. Either form is computed when it is first asked for, so the states of thousands of
    partitions can be read and written without unpacking those that no row came for.
    """

    __slots__ = ("_numbers", "_text")

    def __init__(self, numbers: np.ndarray | None = None, text: str | None = None) -> None:
        self._numbers, self._text = numbers, text

    @property
    def numbers(self) -> np.ndarray:
        """int64[n]; what they mean is the strategy's business, the first one says whose they are."""
        if self._numbers is None:
            planes = np.frombuffer(zlib.decompress(base64.b64decode(self._text or "")), dtype=np.uint8)
            self._numbers = np.frombuffer(planes.reshape(8, -1).T.tobytes(), dtype=np.int64)
        return self._numbers

    @property
    def text(self) -> str:
        """Compressed: all first bytes of the integers, then all second ones, …; the high ones hardly differ, so the
        memory of 5,000 rows is a few kilobytes.
        """
        if self._text is None:
            bytes_ = np.ascontiguousarray(self._numbers, dtype=np.int64).view(np.uint8)
            self._text = base64.b64encode(zlib.compress(bytes_.reshape(-1, 8).T.tobytes(), 1)).decode()
        return self._text

    def of(self, tag: int) -> np.ndarray | None:
        """The numbers behind the tag, or None if another strategy left them."""
        numbers = self.numbers
        return numbers[1:] if len(numbers) and numbers[0] == tag else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Memory) and np.array_equal(self.numbers, other.numbers)

    def __hash__(self) -> int:
        return hash(self.numbers.tobytes())

    def __repr__(self) -> str:
        return f"Memory({self.numbers.tolist()})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Every task of a batch gets the states of all partitions: in their short form.
        return Memory, (None, self.text)
