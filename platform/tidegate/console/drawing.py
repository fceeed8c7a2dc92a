"""Tables as text, drawn to the width there is."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from tidegate.console.port import Table
from tidegate.console.values import show

_GAP = "  "
_NARROWEST = 6


def draw(table: Table, width: int | None = None) -> str:
    """The table as lines. `width`: columns of the terminal; None: as wide as it gets.

    Cells too wide are cut with `…`; if even that does not fit, every row becomes a block of its own, or the last
    columns are hidden, as `table.layout` says.
    """
    types = table.types or [None] * len(table.columns)
    raw = [list(row) for row in table.rows]
    cells = [[show(v, t) for v, t in zip(row, types, strict=True)] for row in raw]
    head = [show(name) for name in table.columns]
    parts = [table.title] if table.title else []
    hidden = ""
    if head:
        wanted = [max([_width(h), *(_width(r[i]) for r in cells)]) for i, h in enumerate(head)]
        shown = len(head)
        fitted = None if table.layout == "blocks" else _fit(wanted, head, width)
        while fitted is None and table.layout == "grid" and shown > 1:
            shown -= 1
            fitted = _fit(wanted[:shown], head[:shown], width)
        if fitted is None and table.layout == "grid" and width is not None:
            fitted = [width]
        if fitted is None:
            shown = len(head)
            parts.append(_blocks(head, cells, width))
        else:
            right = [_is_number_column(raw, i) for i in range(shown)]
            parts.append(_grid(head[:shown], [row[:shown] for row in cells], fitted, right))
        if shown < len(head):
            hidden = f"{len(head) - shown} of {len(head)} columns are hidden: \\x shows them"
    if table.unit:
        count = f"{len(raw)} {table.unit}{'' if len(raw) == 1 else 's'}"
        parts.append(f"({count}; {hidden})" if hidden else f"({count})")
    elif hidden:
        parts.append(f"({hidden})")
    return "\n".join(p for p in parts if p)


def _fit(wanted: list[int], head: list[str], width: int | None) -> list[int] | None:
    """Column widths that fit: the widest columns give first. None if they would become unreadable."""
    if width is None:
        return wanted
    room = width - len(_GAP) * (len(wanted) - 1)
    lowest = [min(w, max(_NARROWEST, min(_width(h), 12))) for w, h in zip(wanted, head, strict=True)]
    if sum(lowest) > room:
        return None
    fitted = list(wanted)
    while sum(fitted) > room:
        widest = max((i for i in range(len(fitted)) if fitted[i] > lowest[i]), key=lambda i: fitted[i])
        fitted[widest] -= 1
    return fitted


def _grid(head: list[str], cells: list[list[str]], widths: list[int], right: list[bool]) -> str:
    def line(values: Sequence[str]) -> str:
        padded = (_pad(v, w, r) for v, w, r in zip(values, widths, right, strict=True))
        return _GAP.join(padded).rstrip()

    return "\n".join([line(head), _GAP.join("─" * w for w in widths), *(line(row) for row in cells)])


def _blocks(head: list[str], cells: list[list[str]], width: int | None) -> str:
    names = max(_width(h) for h in head)
    room = None if width is None else max(10, width - names - len(_GAP))
    blocks = []
    for number, row in enumerate(cells, 1):
        lines = [f"── row {number} ──"]
        for name, value in zip(head, row, strict=True):
            lines.append(f"{_pad(name, names, False)}{_GAP}{_cut(value, room)}".rstrip())
        blocks.append("\n".join(lines))
    return "\n".join(blocks)


def _pad(text: str, width: int, right: bool) -> str:
    cut = _cut(text, width)
    blank = " " * (width - _width(cut))
    return blank + cut if right else cut + blank


def _cut(text: str, width: int | None) -> str:
    if width is None or _width(text) <= width:
        return text
    kept, used = "", 0
    for character in text:
        used += _width(character)
        if used > width - 1:
            break
        kept += character
    return kept + "…"


def _width(text: str) -> int:
    """Columns that the text takes on a terminal: wide East Asian characters two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def _is_number_column(rows: list[list[Any]], index: int) -> bool:
    values = [row[index] for row in rows if row[index] is not None]
    return bool(values) and all(
        isinstance(v, int | float | Decimal) and not isinstance(v, bool) for v in values
    )
