"""How much one row may be (X2): what is beyond these limits is rejected, so that no row can take a task's memory or its
stack. They are settings of the environment (`decoding:` in resources/<env>.yaml). Executor side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.project import Project


@dataclass(frozen=True)
class Limits:
    """Of one row: how deeply its values may be nested, how many values it may have, and its bytes as it is stored."""

    depth: int = 500
    values: int = 1_000_000
    row_bytes: int = 16 << 20

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
        size, unit = self.row_bytes, "bytes"
        for larger in ("KB", "MB"):
            if size % 1024 == 0:
                size, unit = size // 1024, larger
        return f"unparseable: a row of more than {size:,} {unit}"


#: Where nobody sets others.
STANDARD = Limits()


def limits_of(project: Project) -> Limits:
    """What the project's environment sets. Driver side."""
    given = project.env.decoding
    return Limits(given.depth, given.values, given.row_bytes)
