"""What is asked of an amendment, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field

#: Windows that a report lists.
SHOWN_WINDOWS = 50


@dataclass(frozen=True)
class AmendedWindow:
    """One hit window. Bounds are text; `revision`: the new one; `late`: source rows that it absorbs, None where the
    query does not tell; `groups`: result rows that come, go or change."""

    window_start: str
    window_end: str
    revision: int
    late: int | None
    groups: int


@dataclass(frozen=True)
class ViewAmendment:
    """What became of one view. `windows` hit in all, of which the first are listed in `examples`; `late` rows absorbed
    in all; `groups` changed. `dry_run`: nothing was written. `notes`: what was left out, and why."""

    view: str
    windows: int = 0
    late: int | None = 0
    groups: int = 0
    seconds: float = 0.0
    dry_run: bool = False
    examples: list[AmendedWindow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Scope:
    """What is asked of an amendment. `absorb`: late rows are taken in (else windows are recomputed from what they had
    taken in already); `after`, `upto`: only windows that end between them, text in the view's time; `everything`: all
    of these windows are compared, not only those that a late row or an amendment below can have hit."""

    absorb: bool = True
    after: str | None = None
    upto: str | None = None
    everything: bool = False

    @property
    def whole(self) -> bool:
        """Whether no window is left out."""
        return self.after is None and self.upto is None
