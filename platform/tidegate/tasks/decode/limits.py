"""How much one row may be (X2): what is beyond these limits is rejected, so that no row can take a task's memory or its
stack. They are settings of the environment (`decoding:` in resources/<env>.yaml). Executor side."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.project import Project


#: Bytes a second of a slow disk or store.
_SLOWEST = 256 << 10
#: Where rows are narrowed down, such a part of the time by the clock is waited for: most tries of a row that waits for
#: ever end by it.
_HURRIED = 0.1
_patience = 1.0


@dataclass(frozen=True)
class Limits:
    """Of one row: how deeply its values may be nested, how many values it may have, and its bytes as it is stored. Of
    Parquet: the bytes of a page, and the rows of a row group. `seconds`: what some 65,000 rows may take of the
    processor while they are decoded; `elapsed_seconds`: what they may take by the clock."""

    depth: int = 500
    values: int = 1_000_000
    row_bytes: int = 16 << 20
    page_bytes: int = 256 << 20
    group_rows: int = 100_000_000
    seconds: float = 60
    elapsed_seconds: float = 300

    @property
    def too_deep(self) -> str:
        """The reason of a row that is nested more deeply."""
        return f"unparseable: nested more than {self.depth} times"

    @property
    def too_many(self) -> str:
        """The reason of a row with more values."""
        return f"unparseable: more than {self.values:,} values in a row"

    @property
    def too_long(self) -> str:
        """The reason of a row that has more bytes."""
        return f"unparseable: a row of more than {_spelled(self.row_bytes)}"

    @property
    def too_large_page(self) -> str:
        """The reason of the rows of a row group of Parquet, one of whose pages has more bytes."""
        return f"unparseable: a page of more than {_spelled(self.page_bytes)}"

    @property
    def too_many_rows(self) -> str:
        """The reason of the rows of a row group of Parquet that has more."""
        return f"unparseable: a row group of more than {self.group_rows:,} rows"

    @contextmanager
    def bounded(self, reads: int = 0) -> Iterator[None]:
        """What takes longer ends this process, whatever library it is in: a row that never ends is found as one that
        crashes its decoder, whether it computes or waits. `reads`: bytes that may have to be read meanwhile, for which
        a slow disk or store has more time."""
        elapsed = self.elapsed_seconds * _patience + reads / _SLOWEST
        signal.setitimer(signal.ITIMER_PROF, self.seconds)
        signal.setitimer(signal.ITIMER_REAL, elapsed)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)


def hurry() -> None:
    """In this process, from here on, less time by the clock is enough to suspect a row (not to blame it)."""
    global _patience
    _patience = _HURRIED


def _spelled(size: int) -> str:
    unit = "bytes"
    for larger in ("KB", "MB"):
        if size % 1024 == 0:
            size, unit = size // 1024, larger
    return f"{size:,} {unit}"


#: Where nobody sets others.
STANDARD = Limits()


def limits_of(project: Project) -> Limits:
    """What the project's environment sets. Driver side."""
    given = project.env.decoding
    return Limits(
        given.depth,
        given.values,
        given.row_bytes,
        given.page_bytes,
        given.group_rows,
        given.seconds,
        given.elapsed_seconds,
    )
