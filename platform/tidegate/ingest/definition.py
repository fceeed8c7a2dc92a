"""Whether a log is of the definition by which it is read and written."""

from __future__ import annotations

from tidegate.errors import TidegateError


def same_definition(name: str, stored: str | None, wanted: str) -> None:
    """R4: a changed definition never silently continues old results (TG506)."""
    if stored is not None and stored != wanted:
        raise TidegateError(
            "TG506",
            f'the definition of "{name}" has changed since its table was made',
            hint=(
                f'DROP "{name}" and run again to read everything again, or give the new definition '
                "another name"
            ),
        )
