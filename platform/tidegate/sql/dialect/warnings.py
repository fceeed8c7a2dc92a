"""What a statement may say and hardly means: taken down where it is found, for whoever asks (`tidegate check`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tidegate.errors import Location, TidegateWarning

WARNINGS: dict[str, str] = {
    "TG901": "a view of windows without EMIT ON WINDOW CLOSE, where it is probably intended",
    "TG902": "a path that does not exist",
    "TG903": "sum or avg of a VARCHAR: the text is converted to numbers",
    "TG904": "an append-only sink over a view whose shown rows can change",
    "TG905": "cron fields that never fire",
    "TG906": "a source that nothing reads",
    "TG907": "a definition that differs from the one of the stored rows",
    "TG908": "a backslash in a text that means nothing, and is lost",
}

_found: ContextVar[list[TidegateWarning] | None] = ContextVar("warnings", default=None)


def warning(code: str, message: str, location: Location | None, hint: str) -> TidegateWarning:
    """A warning with a code of this registry."""
    if code not in WARNINGS:
        raise ValueError(f"warning code {code} is not in the registry")
    return TidegateWarning(code, message, hint=hint, location=location)


def warn(code: str, message: str, location: Location | None, hint: str) -> None:
    """Take it down, once for each place, if anybody asks."""
    found, new = _found.get(), warning(code, message, location, hint)
    if found is not None and str(new) not in map(str, found):
        found.append(new)


@contextmanager
def collecting() -> Iterator[list[TidegateWarning]]:
    """The warnings of what is analysed inside the block."""
    found: list[TidegateWarning] = []
    token = _found.set(found)
    try:
        yield found
    finally:
        _found.reset(token)
