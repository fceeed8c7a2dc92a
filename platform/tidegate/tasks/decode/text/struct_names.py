"""Names of fields inside of JSON values whatever their case, as `case = 'insensitive'` wants them. Executor side, but
for what is made of a type.

Spark reads nested values, and compares names as they are written: so the names in a text become the declared ones
before. Nothing else in the text changes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.tasks.decode.text.strict_json import TWICE, NotStrict, after_space, scan, scan_text

if TYPE_CHECKING:
    from tidegate.sql.dialect.types import SparkType

_OPENING = {"array": "[", "map": "{", "struct": "{"}


@dataclass(frozen=True)
class Names:
    """The names inside of a value. `kind`: array, map or struct. `fields`: of a struct, by declared name what is inside
    of the field's value. `items`: what is inside of the items of an array, or of the values of a map."""

    kind: str
    fields: Mapping[str, Names | None] = field(default_factory=dict)
    items: Names | None = None
    _declared: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Of two fields that differ by their case only each goes by its own spelling.
        count = Counter(map(folded, self.fields))
        self._declared.update({folded(name): name for name in self.fields if count[folded(name)] == 1})

    def declared(self, name: str) -> str | None:
        """The field that a name in a text means."""
        return name if name in self.fields else self._declared.get(folded(name))


def folded(name: str) -> str:
    """A name without its case: each letter that has a lower case becomes it. None from outside of ASCII becomes one
    of ASCII (the Kelvin sign is no k), and none becomes several letters."""
    return name.lower() if name.isascii() else "".join(map(_folded, name))


def _folded(letter: str) -> str:
    lower = letter.lower()
    return lower if len(lower) == 1 and lower.isascii() == letter.isascii() else letter


def names_of(type_: SparkType) -> Names | None:
    """The names inside of values of a type; None if it declares none. Driver side."""
    if type_.name == "struct":
        fields = zip(type_.fields, type_.args, strict=True)
        return Names("struct", {name: names_of(inner) for name, inner in fields})
    inside = names_of(type_.args[-1]) if type_.name in _OPENING else None
    return None if inside is None else Names(type_.name, items=inside)


def renamed(text: str, names: Names) -> str:
    """A value's strict JSON with the names of fields as they are declared. Raises NotStrict for an object that has a
    field twice."""
    out: list[str] = []
    _value(text, 0, names, out)
    return "".join(out)


def _value(text: str, place: int, names: Names | None, out: list[str]) -> int:
    """Add the value that begins at a place to `out`; the place behind it."""
    if names is None or text[place] != _OPENING[names.kind]:
        end: int = scan(text, place)[1]
        out.append(text[place:end])
        return end
    seen: set[str] = set()
    start, place = place, after_space(text, place + 1)
    while text[place] not in "]}":
        inside = names.items
        if names.kind != "array":
            end = scan_text(text, place + 1, True)[1]
            if names.kind == "struct":
                out.append(text[start:place])
                spelled, inside = _field(text[place:end], names, seen)
                out.append(spelled)
                start = end
            # Behind the colon.
            place = after_space(text, after_space(text, end) + 1)
        out.append(text[start:place])
        start = place = _value(text, place, inside, out)
        place = after_space(text, place)
        if text[place] == ",":
            place = after_space(text, place + 1)
    out.append(text[start : place + 1])
    return place + 1


def _field(key: str, names: Names, seen: set[str]) -> tuple[str, Names | None]:
    """A key as it is to be written, and what is inside of its value."""
    name = json.loads(key)
    declared = names.declared(name)
    if declared is None:
        return key, None
    if declared in seen:
        raise NotStrict(TWICE)
    seen.add(declared)
    return key if name == declared else json.dumps(declared, ensure_ascii=False), names.fields[declared]
