"""Another catalog in the file of an environment: its text is changed at one place, and keeps its comments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tidegate.errors import TidegateError
from tidegate.project.disk import write_whole


def write_catalog(file: Path, catalog: dict[str, str]) -> None:
    """Write `warehouse: {catalog: …}` into the file of an environment, which is made if it is not there.

    Raises TG605 for a file that can't be changed so; it then stays as it is.
    """
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    given = f"catalog: {json.dumps(catalog)}"
    try:
        changed = _changed(text, catalog)
        wanted = dict(_parsed(text))
        wanted["warehouse"] = (wanted.get("warehouse") or {}) | {"catalog": catalog}
        fits = _parsed(changed) == wanted
    except (yaml.YAMLError, ValueError):
        fits = False
    if not fits:
        raise TidegateError(
            "TG605", f"the catalog can't be written into {file}", hint=f"write it below warehouse: {given}"
        )
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, changed)


def _parsed(text: str) -> dict[str, Any]:
    return yaml.safe_load(text) or {}


def _changed(text: str, catalog: dict[str, str]) -> str:
    value = json.dumps(catalog)
    root = yaml.compose(text, yaml.SafeLoader)
    if root is None:
        return f"{text}warehouse:\n  catalog: {value}\n"
    root = _mapping(root)
    found = _value(root, "warehouse")
    if found is None:
        return _inserted(text, root, f'"warehouse": {{"catalog": {value}}}')
    warehouse = _mapping(found)
    old = _value(warehouse, "catalog")
    if old is None:
        return _inserted(text, warehouse, f'"catalog": {value}')
    return text[: old.start_mark.index] + value + text[_end(old) :]


def _mapping(node: yaml.Node) -> yaml.MappingNode:
    if not isinstance(node, yaml.MappingNode):
        raise ValueError(node.tag)
    return node


def _value(mapping: yaml.MappingNode, key: str) -> yaml.Node | None:
    return next((value for name, value in mapping.value if name.value == key), None)


def _inserted(text: str, mapping: yaml.MappingNode, entry: str) -> str:
    """The text with one more entry, the first one of a mapping. An entry in JSON is one of YAML, too."""
    start = mapping.start_mark
    if mapping.flow_style:
        comma = ", " if mapping.value else ""
        return f"{text[: start.index + 1]}{entry}{comma}{text[start.index + 1 :]}"
    key, _, value = entry.partition(": ")
    return f"{text[: start.index]}{json.loads(key)}: {value}\n{' ' * start.column}{text[start.index :]}"


def _end(node: yaml.Node) -> int:
    """Where what is written of a value ends: a block's own end is behind the comments that follow it."""
    if isinstance(node, yaml.MappingNode) and not node.flow_style and node.value:
        return _end(node.value[-1][1])
    return int(node.end_mark.index)
