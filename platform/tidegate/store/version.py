"""The version of how tables are stored (E8). Every release reads the versions of all earlier ones, and touches nothing
that a later one has written: it could misread it without noticing."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.errors import TidegateError

#: Table property of logs, states, views, and the tables of Iceberg sinks; key of the position files of other sinks.
STORAGE_VERSION = "tidegate.storage-version"
#: What this release writes into tables and position files that it makes. 1: the first release, which does not say it.
#: 2: tables say it; position files since some time after.
#: Whoever changes what is stored so that an earlier release would misread it adds one, and keeps tables of the version
#: before in tests/stored.
NEWEST = 2


def storage_version(properties: Mapping[str, str]) -> int | None:
    """Of a table with these properties; None if it is none that this release knows how to number."""
    text = str(properties.get(STORAGE_VERSION, "1"))
    return int(text) if text.isascii() and text.isdigit() else None


def require_known(table: str, properties: Mapping[str, str]) -> None:
    """Raise TG622 for a table of a later release."""
    version = storage_version(properties)
    if version is None or not 1 <= version <= NEWEST:
        raise TidegateError(
            "TG622",
            f"{table} has storage version {properties[STORAGE_VERSION]}, but this release of "
            f"tidegate knows only versions 1 to {NEWEST}: a later release has written it",
            hint="install that later release again; nothing was read or changed",
        )
