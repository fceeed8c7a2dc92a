"""The vulnerabilities that are accepted, each with a reason: `accepted.toml`, which SECURITY.md repeats for people."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("accepted.toml")


@dataclass(frozen=True)
class Accepted:
    """What is accepted holds for these versions only: another one is judged anew."""

    what: str
    why: str
    #: Addresses as `make sbom` writes them, with the version.
    parts: frozenset[str]
    ids: frozenset[str]

    def covers(self, purl: str, ids: Collection[str]) -> bool:
        """Whether this is about that version of that part, and about a vulnerability with one of these ids."""
        return purl in self.parts and not self.ids.isdisjoint(ids)


def read(file: Path = FILE) -> list[Accepted]:
    entries = tomllib.loads(file.read_text(encoding="utf-8"))["accepted"]
    return [Accepted(e["what"], e["why"], frozenset(e["parts"]), frozenset(e["ids"])) for e in entries]


def reason(accepted: Sequence[Accepted], purl: str, ids: Collection[str]) -> str | None:
    """Why a vulnerability of a part is accepted; None if it is not."""
    return next((entry.why for entry in accepted if entry.covers(purl, ids)), None)
