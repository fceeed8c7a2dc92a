"""Options that a source or sink changes in place (E1): all that decide neither which rows there are nor where they
go."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping

from tidegate.sql.options.formats import ACCESS, Format
from tidegate.sql.options.option_types import ConnectorOptions, SinkOptions

#: Of sinks: where the rows go.
_PLACE = ("connector", "path", "table", "topic")


def in_place_options(connector: ConnectorOptions | None, format_: Format | None) -> dict[str, str]:
    """Those that are not at their defaults, by their names in SQL, each as a digest: some are secrets."""
    if connector is None:
        return {}
    is_sink = isinstance(connector, SinkOptions)
    found = dict(_given(connector, _PLACE if is_sink else connector.identity()))
    if format_ is not None:
        found |= {name: value for name, value in format_.options.items() if is_sink or name in ACCESS}
        found |= {"FORMAT": format_.encode} if is_sink else {}
    return {name: hashlib.sha256(value.encode()).hexdigest()[:8] for name, value in sorted(found.items())}


def changed_options(before: Mapping[str, str] | None, now: Mapping[str, str]) -> list[str]:
    """What differs, by names. `before`: None where an earlier release has not recorded it."""
    if before is None:
        return []
    return sorted(name for name in {**before, **now} if before.get(name) != now.get(name))


def _given(connector: ConnectorOptions, apart: Collection[str]) -> Iterator[tuple[str, str]]:
    for name, field in type(connector).model_fields.items():
        value = getattr(connector, name)
        if name in apart or value == field.get_default(call_default_factory=True):
            continue
        if isinstance(value, dict):
            yield from ((f"{connector.open_prefix}{key}", str(text)) for key, text in value.items())
        else:
            yield field.alias or name, str(value)
