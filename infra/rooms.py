"""Writes the picture and the table of the rooms of platform/tidegate from what its files import:
docs/images/rooms.svg, and the table in docs/architecture.md.

python -m infra.rooms
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from graphlib import TopologicalSorter
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "platform" / "tidegate"
PICTURE = ROOT / "docs" / "images" / "rooms.svg"
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- rooms: written by python -m infra.rooms -->\n", "<!-- end of rooms -->\n"
#: Distribution names differ from what is imported.
_LIBRARIES = {
    "google": "protobuf",
    "google_crc32c": "google-crc32c",
    "grpc_tools": "grpcio-tools",
    "kafka": "kafka-python",
    "yaml": "pyyaml",
}
_WIDTH, _ROW, _BOX, _HIGH = 940, 82, 136, 46


@dataclass
class Room:
    """A folder of the package, or a file beside them. `says`: the beginning of its docstring; `folders`: inside it;
    `imports`: rooms; `libraries`: other packages. Imports for type checkers count."""

    name: str
    says: str = ""
    folders: set[str] = field(default_factory=set)
    imports: set[str] = field(default_factory=set)
    libraries: set[str] = field(default_factory=set)


def rooms() -> dict[str, Room]:
    """Every room by its name, from the bottom to the top. Raises `graphlib.CycleError` for rooms in a circle."""
    found: dict[str, Room] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).parts
        if "template" in parts or parts[0].startswith("__"):
            continue
        name = parts[0].removesuffix(".py")
        room = found.setdefault(name, Room(name))
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if len(parts) == 1 or parts[1:] == ("__init__.py",):
            room.says = " ".join((ast.get_docstring(tree) or "").split("\n\n")[0].split())
        room.folders.update(parts[1:2] if len(parts) > 2 else ())
        for module in _imported(tree):
            first, _, rest = module.partition(".")
            if first != "tidegate":
                room.libraries.update({first} - sys.stdlib_module_names)
            elif (PACKAGE / rest.split(".")[0]).exists() or (PACKAGE / f"{rest.split('.')[0]}.py").exists():
                room.imports.update({rest.split(".")[0]} - {name, ""})
    order = TopologicalSorter({name: sorted(room.imports) for name, room in found.items()}).static_order()
    return {name: found[name] for name in order}


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "tidegate":
            yield from (f"tidegate.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def table(house: dict[str, Room]) -> str:
    """The rooms from top to bottom, as Markdown."""
    lines = ["| room | what it is | libraries that it imports |", "|---|---|---|"]
    for room in reversed(house.values()):
        inside = f" ({', '.join(f'`{f}/`' for f in sorted(room.folders))})" if room.folders else ""
        libraries = ", ".join(sorted(_LIBRARIES.get(name, name) for name in room.libraries)) or "–"
        says = room.says.replace("|", "\\|")
        lines.append(f"| `{room.name}`{inside} | {says} | {libraries} |")
    return "\n".join(lines) + "\n"


def page(house: dict[str, Room]) -> str:
    """docs/architecture.md with the table of today."""
    text = PAGE.read_text(encoding="utf-8")
    return re.sub(
        f"{re.escape(BEGIN)}.*?{re.escape(END)}",
        lambda _: f"{BEGIN}\n{table(house)}\n{END}",
        text,
        flags=re.DOTALL,
    )


def layers() -> list[list[str]]:
    """The rooms from top to bottom, as `make lint` holds them (pyproject.toml, import-linter)."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (rows,) = (c["layers"] for c in settings["contracts"] if c.get("containers") == ["tidegate"])
    return [re.split(r"\s*[|:]\s*", row) for row in rows]


def picture(house: dict[str, Room]) -> str:
    """The rooms in their layers, as SVG. An arrow is an import that no other arrow implies: who imports a room may
    import what lies below that one, too."""

    level = {name: row for row, names in enumerate(reversed(layers())) for name in names}

    @cache
    def below(name: str) -> frozenset[str]:
        return frozenset(house[name].imports).union(*(below(other) for other in house[name].imports))

    arrows = [
        (name, other)
        for name in house
        for other in sorted(house[name].imports)
        if not any(other in below(nearer) for nearer in house[name].imports)
    ]
    top = max(level.values())
    middle: dict[str, float] = {}
    for row in range(top + 1):
        names = sorted(name for name in house if level[name] == row)
        names.sort(key=lambda name: _mean([middle[other] for one, other in arrows if one == name]))
        step = _WIDTH / len(names)
        middle |= {name: round(step * (i + 0.5), 1) for i, name in enumerate(names)}
    y = {name: 10 + (top - level[name]) * _ROW for name in house}
    body = [_arrow(middle[a], y[a] + _HIGH, middle[b], y[b]) for a, b in arrows]
    body += [_box(room, middle[name], y[name]) for name, room in house.items()]
    height = (top + 1) * _ROW
    return _HEAD.format(width=_WIDTH, height=height) + "\n".join(body) + "\n</svg>\n"


def _mean(places: list[float]) -> float:
    """Where a room is best drawn: above the middle of what it points at."""
    return sum(places) / len(places) if places else _WIDTH / 2


_HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" text-anchor="middle">
<title>The rooms of tidegate: an arrow points at what a room imports; rooms with a blue edge import PySpark</title>
<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0,0 L8,4 L0,8 z" fill="#777"/></marker></defs>
<rect width="{width}" height="{height}" fill="#fff"/>
"""  # noqa: E501


def _arrow(x: float, y: float, to_x: float, to_y: float) -> str:
    half = (y + to_y) / 2
    path = f"M{x},{y} C{x},{half} {to_x},{half} {to_x},{to_y}"
    return f'<path d="{path}" fill="none" stroke="#999" marker-end="url(#tip)"/>'


def _box(room: Room, middle: float, y: int) -> str:
    edge = "#1f6feb" if "pyspark" in room.libraries else "#555"
    inside = " ".join(f"{name}/" for name in sorted(room.folders))
    width = max(_BOX, 16 + 5.6 * len(inside))
    return (
        f'<rect x="{middle - width / 2:g}" y="{y}" width="{width:g}" height="{_HIGH}" rx="6" '
        f'fill="#f6f8fa" stroke="{edge}"/>'
        f'<text x="{middle}" y="{y + (19 if inside else 28)}" font-size="15">{escape(room.name)}</text>'
        f'<text x="{middle}" y="{y + 36}" font-size="10" fill="#555">{escape(inside)}</text>'
    )


def main() -> None:
    house = rooms()
    PICTURE.write_text(picture(house), encoding="utf-8")
    PAGE.write_text(page(house), encoding="utf-8")


if __name__ == "__main__":
    main()
