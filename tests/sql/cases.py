"""Golden files: every statement of cases/*.sql and what the analysis makes of it, in cases/*.expected.

python -m tests.sql.cases        write the expected files anew; review them in the diff
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

from tests.sql.support import add, prelude
from tidegate.errors import TidegateError
from tidegate.sql import View, analyse
from tidegate.sql.catalog.objects import Node

CASES = Path(__file__).parent / "cases"
# Said elsewhere in the same file.
_LEFT_OUT = ("location", "definition")


def render(path: Path) -> str:
    """What an .expected file holds."""
    return "\n".join(_blocks(path.read_text("utf-8")))


def _blocks(text: str) -> Iterator[str]:
    if "\n----\n" in text:
        for statement in text.split("\n----\n"):
            yield _refused(statement.strip())
        return
    catalog = prelude()
    for statement in analyse(text, catalog, "case.sql"):
        if not getattr(statement, "exists", False):
            add(catalog, statement)
        yield shown(statement) + "\n"


def _refused(statement: str) -> str:
    try:
        found = list(analyse(statement, prelude(), "case.sql"))
    except TidegateError as refused:
        return f"{refused}\n"
    return f"NOT REFUSED: {found}\n"


def shown(value: object, indent: str = "") -> str:
    if isinstance(value, Node):
        columns = ", ".join(f"{name}: {derived.describe()}" for name, derived in value.columns)
        lost = "".join(f"; {name} lost it: {reason}" for name, reason in value.lost)
        return f"{value.name} [{columns}]{lost}"
    if (
        (is_dataclass(value) and not indent)
        or isinstance(value, View)
        or type(value).__name__ in ("Relation", "Sink")
    ):
        inner = indent + "  "
        lines = [type(value).__name__]
        for item in fields(value):
            if item.name not in _LEFT_OUT:
                lines += _field(item.name, getattr(value, item.name), inner)
        return "\n".join(lines)
    return str(value)


def _field(name: str, value: object, indent: str) -> list[str]:
    if isinstance(value, tuple) and value and is_dataclass(value[0]):
        return [f"{indent}{name}:", *(f"{indent}  {shown(v, indent + '  ')}" for v in value)]
    return [f"{indent}{name}: {shown(value, indent)}"]


def main() -> None:
    for path in sorted(CASES.glob("*.sql")):
        path.with_suffix(".expected").write_text(render(path), "utf-8")


if __name__ == "__main__":
    main()
