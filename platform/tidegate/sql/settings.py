"""Session settings: which there are, what each accepts, and their values in one session.

`SET` of a name that is not here is answered by a warning and goes on: scripts for RisingWave and PostgreSQL set many
things that mean nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tidegate.errors import Location, did_you_mean
from tidegate.sql.dialect.codes import error

Value = bool | int | str | None


@dataclass(frozen=True)
class Setting:
    """One setting. `read` turns text into a value, or raises ValueError with what is wrong and what to write."""

    name: str
    about: str
    default: Value
    read: Callable[[str], Value]


def _boolean(text: str) -> bool:
    found = {"true": True, "on": True, "yes": True, "1": True, "t": True} | {
        "false": False,
        "off": False,
        "no": False,
        "0": False,
        "f": False,
    }
    if text.casefold() not in found:
        raise ValueError(f'"{text}" is neither true nor false')
    return found[text.casefold()]


def _rows(text: str) -> int | None:
    if text.casefold() in ("none", "null"):
        return None
    if not re.fullmatch(r"\d{1,18}", text) or int(text) < 1:
        raise ValueError(f'"{text}" is not a number of rows: 1 or more')
    return int(text)


def _utc(text: str) -> str:
    if text.casefold() not in ("utc", "etc/utc", "gmt", "z", "zulu", "universal", "+00:00", "0"):
        raise ValueError(
            f'the time zone is always UTC, not "{text}": watermarks, windows and stored times '
            "must not depend on the user. Shift times in the query: t AT TIME ZONE …"
        )
    return "UTC"


SETTINGS: dict[str, Setting] = {
    s.name: s
    for s in (
        Setting(
            "implicit_flush",
            "every INSERT, UPDATE and DELETE flushes: the watermark moves and windows close at once",
            False,
            _boolean,
        ),
        Setting(
            "max_rows_per_batch",
            "number of rows in a batch, for sources whose batches are measured in rows; "
            "results do not depend on it (W4)",
            None,
            _rows,
        ),
        Setting("timezone", "the session's time zone: UTC, always", "UTC", _utc),
    )
}
#: Names that others use for ours.
_ALIASES = {"rw_implicit_flush": "implicit_flush", "time zone": "timezone", "time_zone": "timezone"}


class SessionSettings:
    """The values of one session. Names are looked up whatever their case, RisingWave's names included."""

    def __init__(self) -> None:
        self._values: dict[str, Value] = {}

    def __getitem__(self, name: str) -> Value:
        setting = SETTINGS[name]
        return self._values.get(name, setting.default)

    @property
    def implicit_flush(self) -> bool:
        return bool(self["implicit_flush"])

    @property
    def max_rows_per_batch(self) -> int | None:
        value = self["max_rows_per_batch"]
        return value if isinstance(value, int) else None

    def set(self, name: str, text: str, location: Location | None = None) -> str | None:
        """Give a setting a value; a warning if there is no such setting. Raises TG408 for a bad value."""
        known = find(name)
        if known is None:
            return f'there is no setting "{name}", so it changes nothing; {hint(name)}'
        try:
            self._values[known.name] = known.read(text)
        except ValueError as refused:
            raise error("TG408", f"{known.name}: {refused}", location, known.about) from None
        return None

    def reset(self, name: str | None) -> str | None:
        """Back to the default; None resets all. A warning if there is no such setting."""
        if name is None:
            self._values.clear()
            return None
        known = find(name)
        if known is None:
            return f'there is no setting "{name}", so it changes nothing; {hint(name)}'
        self._values.pop(known.name, None)
        return None

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """(name, value as text, what it does) of all."""
        for setting in SETTINGS.values():
            yield setting.name, self.text(setting.name), setting.about

    def text(self, name: str) -> str:
        """A value as `SHOW` prints it."""
        value = self[name]
        if isinstance(value, bool):
            return "true" if value else "false"
        return "none" if value is None else str(value)


def find(name: str) -> Setting | None:
    """The setting of this name or alias, whatever its case."""
    folded = name.casefold()
    return SETTINGS.get(_ALIASES.get(folded, folded))


def hint(name: str) -> str:
    """What to write instead of an unknown name."""
    return did_you_mean(name, [*SETTINGS, *_ALIASES]) or f"settings: {', '.join(SETTINGS)}"
