"""The one error type that people see: a code, what was wrong, where (file, line, caret) and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from tidegate.confidential import blackened, without_logins
from tidegate.masking import masked

#: What the errors of others say where there was no memory for a task, or for a library that it loads.
NO_MEMORY = ("MemoryError", "allocate memory", "failed to map segment from shared object")


@dataclass(frozen=True)
class Location:
    """A span of source text. `line` and `column` count from 1; `text` is the whole source line."""

    file: str
    line: int
    column: int
    length: int = 1
    text: str = ""

    def excerpt(self) -> str:
        """The source line with a caret under the span, as compilers print it."""
        gutter = f"{self.line} | "
        # Tabs keep their width under the caret only if the padding repeats them.
        lead = "".join("\t" if c == "\t" else " " for c in self.text[: self.column - 1])
        carets = "^" * max(1, min(self.length, len(self.text) - self.column + 1))
        return f"{gutter}{self.text}\n{' ' * len(gutter)}{lead}{carets}"


class TidegateError(Exception):
    """An error with a code that docs and tests can name. `others`: what else is wrong at the same place (a file of
    which only the first mistake could be raised).

    `message` says what was wrong, `location` where, `hint` what to do. `str(error)` is the full text for a
    terminal; `to_dict()` is the same for `--json`.
    """

    severity = "error"

    def __init__(
        self, code: str, message: str, *, hint: str | None = None, location: Location | None = None
    ) -> None:
        self.others: tuple[TidegateError, ...] = ()
        #: Whether the same may succeed later, although other errors of this code come again.
        self.curable = False
        #: Of results of another definition (TG506): whether they are continued all the same, and can be read.
        self.continued = False
        self.code = code
        # The one place through which all that people are told of an error goes: no secret gets further (X4).
        self.message = without_logins(masked(message))
        self.hint = None if hint is None else without_logins(masked(hint))
        self.location = None if location is None else replace(location, text=blackened(masked(location.text)))
        super().__init__(self.message)

    def __str__(self) -> str:
        lines = [f"{self.severity} {self.code}: {self.message}"]
        if self.location is not None:
            where = self.location
            lines.append(f" --> {where.file}:{where.line}:{where.column}")
            if where.text:
                lines.append(where.excerpt())
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: code, message, hint, location (or None)."""
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "location": asdict(self.location) if self.location else None,
        }


class TidegateWarning(TidegateError):
    """What is allowed, and hardly meant: shown like an error, never raised."""

    severity = "warning"


class Problems:
    """Takes down errors, so that all of them can be shown at once. `fail_fast`: the first one is raised after all."""

    def __init__(self, fail_fast: bool = False) -> None:
        self.errors: list[TidegateError] = []
        #: Names (casefolded) of what could not be read: what is said about these elsewhere follows from that.
        self.broken: set[str] = set()
        self._fail_fast = fail_fast

    @contextmanager
    def caught(self, *names: str) -> Iterator[None]:
        """Take down the error that ends this block. `names`: what is not defined then."""
        try:
            yield
        except TidegateError as error:
            if self._fail_fast:
                raise
            self.errors += [error, *error.others]
            self.broken |= {name.casefold() for name in names}


#: For those who want the first error raised.
FAIL_FAST = Problems(fail_fast=True)


def text_of(document: Mapping[str, Any]) -> str:
    """The full text of an error that `to_dict` made data of; of one without a code, its message."""
    if document["code"] is None:
        return f"error: {document['message']}"
    where = document.get("location")
    location = Location(**where) if where else None
    return str(
        TidegateError(document["code"], document["message"], hint=document.get("hint"), location=location)
    )


def did_you_mean(word: str, candidates: Iterable[str], cutoff: float = 0.6) -> str | None:
    """`did you mean "x"?` for the closest candidate (case-insensitive), or None if nothing is close."""
    by_fold = {c.casefold(): c for c in candidates}
    close = difflib.get_close_matches(word.casefold(), list(by_fold), n=1, cutoff=cutoff)
    return f'did you mean "{by_fold[close[0]]}"?' if close else None
