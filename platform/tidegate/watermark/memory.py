"""What a strategy remembers of a partition's earlier rows: int64s while rows are judged, short text between batches.

The text is the numbers themselves, compressed, or says in which file they are: the memory of thousands of partitions
is kept beside the log, where tasks write and read it, and never comes to the driver.
"""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np

#: What the text of a memory that is in a file begins with; no base64 does.
_STORED = "@"


class StrategyMemory:
    """Never changed once made. Either form is computed when it is first asked for, so the states of thousands of
    partitions can be read and written without unpacking those that no row came for.

    One that is `stored` somewhere has its `head`, and no `numbers` until somebody reads them from there.
    """

    __slots__ = ("_numbers", "_text")

    def __init__(self, numbers: np.ndarray | None = None, text: str | None = None) -> None:
        self._numbers, self._text = numbers, text

    @property
    def numbers(self) -> np.ndarray:
        """int64[n]; what they mean is the strategy's business, the first one says whose they are."""
        if self._numbers is None:
            if self.stored is not None:
                raise AssertionError(f"the numbers are in {self.stored}")
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

    @property
    def stored(self) -> str | None:
        """The file that has the numbers; None if they are here."""
        if self._text is None or not self._text.startswith(_STORED):
            return None
        return self._text[1:].split(",")[0]

    @property
    def head(self) -> tuple[int, ...]:
        """The first two numbers, if there are so many: they stay with the state wherever the others are."""
        if self.stored is not None and self._text is not None:
            return tuple(int(number) for number in self._text.split(",")[1:])
        return tuple(self.numbers[:2].tolist())

    def put_into(self, file: str) -> StrategyMemory:
        """The same memory, once `file` (a plain name) has its `text`."""
        return StrategyMemory(text=",".join((f"{_STORED}{file}", *map(str, self.head))))

    def of(self, tag: int) -> np.ndarray | None:
        """The numbers behind the tag, or None if another strategy left them."""
        numbers = self.numbers
        return numbers[1:] if len(numbers) and numbers[0] == tag else None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StrategyMemory) or self.stored != other.stored:
            return False
        return self.text == other.text if self.stored else np.array_equal(self.numbers, other.numbers)

    def __hash__(self) -> int:
        return hash(self.text if self.stored else self.numbers.tobytes())

    def __repr__(self) -> str:
        return f"Memory({self.text if self.stored else self.numbers.tolist()})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Every task of a batch gets the states of all partitions: in their short form.
        return StrategyMemory, (None, self.text)
