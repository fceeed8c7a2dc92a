"""One attempt to commit by Iceberg's Java: what it answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tidegate.errors import TidegateError
from tidegate.iceberg.protocol import AnswerLost, Commit, Conflict, Done, Found, Snapshot, Stored, drive
from tidegate.project.catalog_failures import UNANSWERED, unanswered

#: How often a commit is tried where each time somebody's upkeep was faster.
TRIES = 4


class Update(Protocol):
    """What is committed at once. `own`: the id that its snapshot has, or would have; None if the catalog has not been
    asked for it."""

    @property
    def own(self) -> int | None: ...

    def commit(self) -> None: ...


def attempted(update: Update) -> Stored | Conflict | AnswerLost:
    """What Iceberg's Java answers to an attempt, by the names of its exceptions."""
    try:
        update.commit()
    except Exception as error:
        java = getattr(error, "java_exception", None)
        name = java.getClass().getSimpleName() if java is not None else ""
        if name in ("ValidationException", "CommitFailedException"):
            return Conflict(error, update.own)
        if name in UNANSWERED:
            # A database or a server that broke off may have done what it was asked, too.
            return AnswerLost(unanswered(java), update.own)
        raise
    return Stored(update.own)


def committed(
    table: str,
    base: Snapshot,
    look: Callable[[int | None], Found],
    attempt: Callable[[Snapshot], Stored | Conflict | AnswerLost],
    tries: int = 1,
) -> int:
    """The id of the snapshot that an attempt on `base`, or on upkeep that came on top of it, has made. Raises TG502 if
    others were faster, and the error of an attempt of which nobody knows what became of it."""
    end = drive(Commit(base, tries=tries), look, attempt)
    if isinstance(end, Done):
        return int(end.value)
    if end.why == "unknown" and end.error is not None:
        raise end.error
    raise overtaken(table) from end.error


def overtaken(table: str) -> TidegateError:
    """TG502: somebody else was faster."""
    return TidegateError(
        "TG502",
        f"another run has committed to {table} in the meantime; this batch was not stored",
        hint="run again: it continues from the commit of the other run",
    )
