"""What commits put on record for whoever reads them later: facts under one key of a summary, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, ClassVar, Self


class Recorded:
    """Base of dataclasses that one key of a commit's summary holds."""

    KEY: ClassVar[str]

    @classmethod
    def of(cls, summary: Mapping[str, str]) -> Self | None:
        """As a commit says it; None: it says nothing of this. What a later release says besides is not known here."""
        text = summary.get(cls.KEY)
        if text is None:
            return None
        known = {one.name for one in fields(cls)}  # type: ignore[arg-type]  # a dataclass
        return cls(**{name: value for name, value in json.loads(text).items() if name in known})

    def to_text(self: Any) -> str:
        """The inverse of `of`."""
        return json.dumps(asdict(self), ensure_ascii=False)
