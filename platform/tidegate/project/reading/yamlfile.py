"""YAML files with places: each value knows its line and column, and `${NAME}` is expanded."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tidegate.confidential import is_secret
from tidegate.errors import Location, TidegateError
from tidegate.project.reading.variables import expand

Path_ = tuple[str | int, ...]


@dataclass(frozen=True)
class YamlFile:
    """A parsed file: `data` (mapping), and where each key and value of it stands. `written`: each text in which a
    variable is, as it stands in the file."""

    name: str
    data: dict[str, Any]
    keys: Mapping[Path_, Location] = field(repr=False)
    values: Mapping[Path_, Location] = field(repr=False)
    written: Mapping[Path_, str] = field(repr=False)

    def locate(self, path: Path_, *, key: bool = False) -> Location | None:
        """Location of the value (or of its key) at `path`; else of the nearest parent in the file."""
        for end in range(len(path), -1, -1):
            part = path[:end]
            if (key or part not in self.values) and part in self.keys:
                return self.keys[part]
            if part in self.values:
                return self.values[part]
        return None


def read_yaml(
    path: Path,
    name: str,
    environ: Mapping[str, str] | None = None,
    as_written: Callable[[Path_], bool] = lambda place: False,
) -> YamlFile:
    """Parse the file at `path`, called `name` in errors. `environ` defaults to the process environment. `as_written`:
    the places where `${NAME}` stays as it is.

    Raises TG603 for what is not a YAML mapping (or has a key twice), TG606 for a `${NAME}` that is not set.
    """
    return parse_yaml(path.read_text(encoding="utf-8"), name, environ, as_written=as_written)


def parse_yaml(
    text: str,
    name: str,
    environ: Mapping[str, str] | None = None,
    lines: Sequence[str] | None = None,
    as_written: Callable[[Path_], bool] = lambda place: False,
) -> YamlFile:
    """`read_yaml` on text. `lines`: what errors show, where the text is cut out of another one."""
    return _Reader(text, name, os.environ if environ is None else environ, lines, as_written).read()


class _Reader:
    def __init__(
        self,
        text: str,
        name: str,
        environ: Mapping[str, str],
        lines: Sequence[str] | None,
        as_written: Callable[[Path_], bool],
    ) -> None:
        self._name, self._as_written = name, as_written
        self._environ = environ
        self._lines = text.splitlines() if lines is None else list(lines)
        self._loader = yaml.SafeLoader(text)
        self._keys: dict[Path_, Location] = {}
        self._values: dict[Path_, Location] = {}
        self._written: dict[Path_, str] = {}

    def read(self) -> YamlFile:
        try:
            node = self._loader.get_single_node()
            self._mask(node, ())
            data = {} if node is None else self._build(node, ())
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            where = self._location(mark.line, mark.column, 1) if mark else None
            raise TidegateError(
                "TG603", f"not valid YAML: {error.problem or error.context}", location=where
            ) from None
        except yaml.YAMLError as error:
            raise TidegateError("TG603", f"{self._name} is not valid YAML: {error}") from None
        finally:
            self._loader.dispose()
        if data is None:
            data = {}
        if not isinstance(data, dict):
            raise TidegateError(
                "TG603", "expected `key: value` lines at the top level", location=self._values[()]
            )
        return YamlFile(self._name, data, self._keys, self._values, self._written)

    def _mask(self, node: yaml.Node | None, path: Path_) -> None:
        """Errors show lines: not what stays as it is written, since it may be a secret that should not stand there."""
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                self._mask(value, (*path, key.value))
        elif isinstance(node, yaml.SequenceNode):
            for i, item in enumerate(node.value):
                self._mask(item, (*path, i))
        elif isinstance(node, yaml.ScalarNode) and self._as_written(path):
            for number in range(node.start_mark.line, min(node.end_mark.line + 1, len(self._lines))):
                line = self._lines[number]
                start = node.start_mark.column if number == node.start_mark.line else 0
                end = node.end_mark.column if number == node.end_mark.line else len(line)
                self._lines[number] = line[:start] + "*" * (end - start) + line[end:]

    def _location(self, line: int, column: int, length: int) -> Location:
        text = self._lines[line] if line < len(self._lines) else ""
        return Location(self._name, line + 1, column + 1, max(1, length), text)

    def _place(self, node: yaml.Node) -> Location:
        start, end = node.start_mark, node.end_mark
        one_line = start.line == end.line
        return self._location(start.line, start.column, end.column - start.column if one_line else 1)

    def _build(self, node: yaml.Node, path: Path_) -> Any:
        self._values[path] = self._place(node)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._build(item, (*path, i)) for i, item in enumerate(node.value)]
        value = self._loader.construct_object(node, deep=True)
        if not isinstance(value, str) or self._as_written(path):
            return value
        if "${" in value:
            self._written[path] = value
        secret = bool(path) and is_secret(str(path[-1]))
        return expand(value, self._environ, self._values[path], secret)

    def _mapping(self, node: yaml.MappingNode, path: Path_) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            place = self._place(key_node)
            if key_node.tag == "tag:yaml.org,2002:merge":
                raise TidegateError("TG603", "merge keys (`<<`) are not supported here", location=place)
            key = self._loader.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise TidegateError(
                    "TG603", f"a key must be text, not {key!r}", hint="put it in quotes", location=place
                )
            if key in result:
                raise TidegateError(
                    "TG603", f'"{key}" is given twice', hint="keep one of the two", location=place
                )
            self._keys[(*path, key)] = place
            result[key] = self._build(value_node, (*path, key))
        return result
