"""Explain: a plan's stages as text or as data, with the watermark columns at each and what differs
elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from tidegate.plan.stages import Stage, look_up, plan_for
from tidegate.sql.catalog import Catalog, Object, View

_LABEL_WIDTH = 21


@dataclass(frozen=True)
class Explanation:
    """A plan to be shown. `watermark` is the source's, in its unit, where `known`; then each column's is
    shown.

    `str()` is the text for people, `to_dict()` the same as data.
    """

    name: str
    kind: str
    place: str | None
    description: str | None
    stages: tuple[Stage, ...]
    readers: tuple[str, ...]
    watermark: int | None = None
    known: bool = False

    def __str__(self) -> str:
        head = f"{self.name}: {self.kind}" + (f"  ({self.place})" if self.place else "")
        blocks = [head, *(["  " + self.description] if self.description else []), ""]
        for number, stage in enumerate(self.stages):
            if number:
                blocks.append("  │")
            blocks += self._stage_lines(stage)
        if self.readers:
            blocks += ["", f"read by: {', '.join(self.readers)}"]
        return "\n".join(blocks)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: name, kind, stages with facts, watermarks (with `now` where known) and differences."""
        return {
            "name": self.name,
            "kind": self.kind,
            "place": self.place,
            "description": self.description,
            "watermark": self.watermark,
            "stages": [self._stage_dict(stage) for stage in self.stages],
            "readers": list(self.readers),
        }

    def _stage_lines(self, stage: Stage) -> list[str]:
        lines = [f"{stage.node:<8}{stage.name}"]
        lines += [_line(label, text) for label, text in stage.facts()]
        marks = [(w.column, w.text(), w.at(self.watermark) if self.known else None) for w in stage.watermarks]
        if not marks:
            lines.append(_line("watermark", "no column carries one"))
        widest = max((len(f"{column} = {text}") for column, text, _ in marks), default=0)
        for number, (column, text, now) in enumerate(marks):
            shown = f"{column} = {text}"
            if now is not None:
                shown = f"{shown:<{widest}}   now {now}"
            lines.append(_line("" if number else "watermark", shown))
        for difference in stage.differences:
            lines.append(_line(f"RisingWave {difference.rule}", difference.theirs))
            lines.append(_line("  here", difference.here))
        return lines

    def _stage_dict(self, stage: Stage) -> dict[str, Any]:
        marks = []
        for mark in stage.watermarks:
            entry = {"column": mark.column, "derived": mark.text()}
            marks.append(entry | ({"now": mark.at(self.watermark)} if self.known else {}))
        return {
            "node": stage.node,
            "name": stage.name,
            "facts": dict(stage.facts()),
            "watermarks": marks,
            "differences": [{f.name: getattr(d, f.name) for f in fields(d)} for d in stage.differences],
        }


def explain(
    catalog: Catalog,
    name: str | Object,
    *,
    namespace: str = "main",
    watermark: int | None = None,
    known: bool = False,
) -> Explanation:
    """The plan of source, table or view `name` (or of a definition). Raises TG201 for an unknown name.

    `known`: the source's watermark was looked up and is `watermark`, in its unit (None: none yet).
    """
    found = look_up(catalog, name) if isinstance(name, str) else name
    if isinstance(found, View):
        kind = "materialized view" + (", EMIT ON WINDOW CLOSE" if found.emit_on_window_close else "")
    else:
        kind = "source" if found.kind == "source" else "table, APPEND ONLY"
    return Explanation(
        name=found.name,
        kind=kind,
        place=f"{found.location.file}:{found.location.line}" if found.location else None,
        description=" ".join(found.description.split()) if found.description else None,
        stages=tuple(plan_for(catalog, found, namespace)),
        readers=tuple(view.name for view in catalog.readers(found.name)),
        watermark=watermark,
        known=known,
    )


def _line(label: str, text: str) -> str:
    return f"        {label:<{_LABEL_WIDTH}}{text}".rstrip()
