"""Explain: a plan's stages as text or as data, with the watermark columns at each and what differs
elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from tidegate.plan.kafka_facts import READ_BY
from tidegate.plan.marks import Marks
from tidegate.plan.stages import (
    Command,
    SourceStage,
    Stage,
    command_stages,
    delivery_stages,
    look_up,
    plan_for,
)
from tidegate.plan.upkeep_stages import TableStage
from tidegate.plan.view_stages import Namespace
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.objects import Object, Relation, Sink, View
from tidegate.watermark import Mark, SessionMark

_LABEL_WIDTH = 21


@dataclass(frozen=True)
class Explanation:
    """A plan to be shown. `marks`: how far each source and view in it is, in its unit, where that is known; then each
    column's watermark is shown.

    `str()` is the text for people, `to_dict()` the same as data.
    """

    name: str
    kind: str
    place: str | None
    description: str | None
    stages: tuple[Stage, ...]
    readers: tuple[str, ...]
    marks: Marks | None = None

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
            "marks": None if self.marks is None else {k: _frontier(v) for k, v in self.marks.items()},
            "stages": [self._stage_dict(stage) for stage in self.stages],
            "readers": list(self.readers),
        }

    def _stage_lines(self, stage: Stage) -> list[str]:
        lines = [f"{stage.node:<8}{stage.name}"]
        lines += [_line(label, text) for label, text in stage.facts()]
        known = self.marks
        marks = [(w.column, w.text(), None if known is None else w.at(known)) for w in stage.watermarks]
        if not marks and not isinstance(stage, TableStage):
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
            marks.append(entry | ({} if self.marks is None else {"now": mark.at(self.marks)}))
        return {
            "node": stage.node,
            "name": stage.name,
            "facts": _facts(stage),
            "watermarks": marks,
            "differences": [{f.name: getattr(d, f.name) for f in fields(d)} for d in stage.differences],
        }


def explain(
    catalog: Catalog,
    name: str | Object | Sink,
    *,
    namespace: Namespace = "main",
    marks: Marks | None = None,
    command: Command = "run",
    reading: Callable[[Relation], str] | None = None,
) -> Explanation:
    """The plan of source, table, view or sink `name` (or of a definition). Raises TG201 for an unknown name.

    `command`: of which command it is the plan; `amend`, `backfill` and `rebuild` are those of a view alone, `cleanup`
    of a table with a PRIMARY KEY, and change nothing of the plan of anything else. `marks`: how far the sources and
    views in it are, if that was looked up; those without a watermark yet are absent. `reading`: which client
    reads a Kafka source in an environment, as text; None: what its definition allows is shown.
    """
    found = (catalog.sinks.find(name) or look_up(catalog, name)) if isinstance(name, str) else name
    if isinstance(found, Sink):
        upstream = found.view or look_up(catalog, found.upstream)
        stages = _here(
            (*plan_for(catalog, upstream, namespace), *delivery_stages(catalog, found, namespace)),
            catalog,
            reading,
        )
        place = f"{found.location.file}:{found.location.line}" if found.location else None
        text = " ".join(found.description.split()) if found.description else None
        return Explanation(found.name, "sink", place, text, stages, (), marks)
    if isinstance(found, View):
        catalog = catalog.having(found)
        kind = "materialized view" + (", EMIT ON WINDOW CLOSE" if found.emit_on_window_close else "")
    else:
        kind = "source" if found.kind == "source" else "table, APPEND ONLY"
        if found.primary_key:
            kind = f"{found.kind}, PRIMARY KEY ({', '.join(found.primary_key)})" + (
                ", WITH TTL" if found.ttl else ""
            )
    return Explanation(
        name=found.name,
        kind=kind,
        place=f"{found.location.file}:{found.location.line}" if found.location else None,
        description=" ".join(found.description.split()) if found.description else None,
        stages=_here(command_stages(catalog, found, command, namespace), catalog, reading, found),
        readers=_readers(catalog, found.name),
        marks=marks,
    )


def _here(
    stages: tuple[Stage, ...],
    catalog: Catalog,
    reading: Callable[[Relation], str] | None,
    found: Object | None = None,
) -> tuple[Stage, ...]:
    """With what the environment says of Kafka sources. `found`: a definition that the catalog need not have."""
    if reading is None:
        return stages

    def told(stage: Stage) -> Stage:
        if not isinstance(stage, SourceStage) or READ_BY not in dict(stage.options):
            return stage
        relation = found if found is not None and found.name == stage.name else look_up(catalog, stage.name)
        assert isinstance(relation, Relation)
        text = reading(relation)
        return replace(stage, options=tuple((n, text if n == READ_BY else v) for n, v in stage.options))

    return tuple(told(stage) for stage in stages)


def _readers(catalog: Catalog, name: str) -> tuple[str, ...]:
    """Views, and sinks: those with a query of their own read it through that."""
    views = catalog.readers(name)
    sinks = [sink.name for sink in catalog.sinks if sink.view in views or sink in catalog.sinks.of(name)]
    return (*(view.name for view in views if "$" not in view.name), *sinks)


def _facts(stage: Stage) -> dict[str, str | list[str]]:
    """By label; a label that stands there several times (two inputs, say) has a list."""
    found: dict[str, list[str]] = {}
    for label, text in stage.facts():
        found.setdefault(label, []).append(text)
    return {label: texts[0] if len(texts) == 1 else texts for label, texts in found.items()}


def _frontier(mark: Mark) -> int | None:
    return mark.watermark if isinstance(mark, SessionMark) else mark


def _line(label: str, text: str) -> str:
    return f"        {label:<{_LABEL_WIDTH}}{text}".rstrip()
