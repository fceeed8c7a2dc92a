"""Transcript files: rows and flushes in, outcomes, watermarks and windows out, told as small text tables.

One file, one topic.

    source:
      create: CREATE TABLE events (event VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS …) APPEND ONLY;
      columns: {event: VARCHAR, ts: TIMESTAMP}    # the first one names the row
      watermark: ts - INTERVAL '10 seconds'       # as written in `create`
      partition: origin                           # only with files: the column that is the partition, else 0
    day: 2024-01-01                               # put before times that are written without a date
    views:
      hourly:
        sql: CREATE MATERIALIZED VIEW hourly AS …
        window: tumble 1 hour                     # or hop SLIDE SIZE; then: offset LENGTH
        by: [city]                                # grouping besides the window
        columns: {n: count(*), total: sum(x)}
        where: x > 1
    steps:
      - rows: |                                   # left of || what goes in, right of it what must come out
          event | ts       || outcome | missed   | late_by    | Wp
          H     | 12:00:11 || on time |          |            | 12:00:01
          I     | 11:59:50 || late    | 12:00:01 | 11 seconds | 12:00:01
      - flush:                                    # a batch is committed: G is published, windows close
          watermarks: {"0": 12:00:01, G: 12:00:01}
          emitted:                                # by views with EMIT ON WINDOW CLOSE, since the last flush
            hourly: |                             # (a view that is not listed must have emitted nothing)
              window_start | window_end | n
              11:00:00     | 12:00:00   | 1
          shows: {…}                              # the whole content of a view, open windows included
    must_fail: [text, …]                          # only in must_fail/: the differences `check` must report

A strategy other than `column` or `column ± length` needs a column `strategy` left of the `||`: its value for
the row. Outcomes are `on time` (or blank), `late`, or `rejected: reason`; late_by and Wp, the partition's
watermark after the row, are optional. Rows whose time is `null` or can't be read are rejected, and so are
those with NULL in a NOT NULL column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml

from tests.transcripts.transcript import (
    Flush,
    Group,
    Outcome,
    Rows,
    Snapshot,
    Transcript,
    TranscriptRow,
    ViewSpec,
    parse_length,
    parse_time,
)

FOLDER = Path(__file__).parent / "played"
KINDS = {"TIMESTAMP", "TIMESTAMPTZ", "DATE", "BIGINT"}


def transcripts(folder: Path = FOLDER) -> list[Transcript]:
    """All transcripts of a folder, by name."""
    return [load(path) for path in sorted(folder.glob("*.yaml"))]


def load(path: Path) -> Transcript:
    """Read one file. Raises ValueError, naming the file, if it contradicts itself or can't be understood."""
    try:
        return _Loader(path.stem, yaml.load(path.read_text(), Loader=yaml.BaseLoader)).transcript()
    except (ValueError, KeyError) as error:
        raise ValueError(f"{path.name}: {error}") from error


class _Loader:
    """Everything of one file while it is read. YAML's own types are not used: `12:00:01` must stay text."""

    def __init__(self, name: str, document: dict[str, Any]) -> None:
        unknown = document.keys() - {"about", "rules", "day", "source", "views", "steps", "must_fail"}
        if unknown:
            raise ValueError(f"unknown keys {sorted(unknown)}")
        self.name, self.document = name, document
        self.day = document.get("day")
        source = document["source"]
        self.create = source["create"].strip()
        self.columns: dict[str, str] = source["columns"]
        self.partition_column = source.get("partition")
        self.watermark = source["watermark"]
        self.time = next(c for c in self.columns if re.search(rf"WATERMARK FOR {c} AS", self.create))
        self.kind = self.columns[self.time]
        if self.kind not in KINDS:
            raise ValueError(f"{self.kind} can't carry a watermark")
        clause = re.escape(f"WATERMARK FOR {self.time} AS {self.watermark}")
        if not re.search(clause + r" ?[,)]", " ".join(self.create.split())):
            raise ValueError(f"`create` has another strategy than {self.watermark}")
        self.via = "files" if "{path}" in self.create else "table"
        if (self.via == "files") != (self.partition_column is not None):
            raise ValueError("files need a partition column, tables have none")
        self.source = re.match(r"CREATE (?:SOURCE|TABLE) (\w+)", self.create)[1]
        self.views = tuple(self.view(name, view) for name, view in document.get("views", {}).items())
        self.expected = Snapshot(watermark_after={})
        self.offsets: dict[str, int] = {}

    def transcript(self) -> Transcript:
        steps = []
        for step in self.document["steps"]:
            if step == "flush":
                steps.append(self.flush({}))
            elif set(step) == {"rows"}:
                steps.append(self.rows(step["rows"]))
            elif set(step) == {"flush"}:
                steps.append(self.flush(step["flush"]))
            else:
                raise ValueError(f"a step is rows or flush, not {step}")
        return Transcript(
            name=self.name,
            about=self.document["about"].strip(),
            rules=tuple(self.document["rules"]),
            source=self.source,
            create=self.create,
            via=self.via,
            kind=self.kind,
            time=self.time,
            columns=self.columns,
            views=self.views,
            steps=tuple(steps),
            must_fail=tuple(self.document.get("must_fail", ())),
        )

    def view(self, name: str, spec: dict[str, Any]) -> ViewSpec:
        if f"MATERIALIZED VIEW {name} AS" not in spec["sql"]:
            raise ValueError(f"the SQL of {name} creates another view")
        window, _, offset = spec["window"].partition(" offset ")
        shape, _, lengths = window.partition(" ")
        found = re.findall(r"\d+(?: [a-z]+)?", lengths)
        if len(found) != {"tumble": 1, "hop": 2}.get(shape):
            raise ValueError(f"not a window: {spec['window']}")
        slide, size = (parse_length(self.kind, text) for text in (found[0], found[-1]))
        aggregates = {}
        for output, call in spec["columns"].items():
            function, column = re.fullmatch(r"(count|sum|avg|min|max)\((\w+|\*)\)", call).groups()
            aggregates[output] = (function, None if column == "*" else column)
        return ViewSpec(
            name=name,
            sql=spec["sql"].strip(),
            slide=slide,
            size=size,
            offset=parse_length(self.kind, offset) if offset else 0,
            keys=tuple(spec.get("by", ())),
            aggregates=aggregates,
            where=self.where(spec.get("where")),
            emit_on_window_close=spec["sql"].strip().removesuffix(";").endswith("EMIT ON WINDOW CLOSE"),
        )

    def where(self, text: str | None) -> Callable[[Mapping[str, Any]], bool]:
        if text is None:
            return lambda values: True
        column, operator, literal = re.fullmatch(r"(\w+) (=|<>|<|>) (.+)", text).groups()
        wanted = self.value(column, literal.strip("'"))
        compare = {
            "=": lambda a: a == wanted,
            "<>": lambda a: a != wanted,
            "<": lambda a: a < wanted,
            ">": lambda a: a > wanted,
        }[operator]
        # As in SQL, a comparison with NULL is not true.
        return lambda values: values[column] is not None and compare(values[column])

    def rows(self, text: str) -> Rows:
        return Rows(tuple(self.row(given, wanted) for given, wanted in _table(text)))

    def row(self, given: dict[str, str], wanted: dict[str, str]) -> TranscriptRow:
        strange = given.keys() - self.columns.keys() - {"strategy"}
        strange |= wanted.keys() - {"outcome", "missed", "late_by", "Wp"}
        if strange or self.columns.keys() - given.keys():
            raise ValueError(f"columns of the rows: {strange or self.columns.keys() - given.keys()}")
        values = {column: self.value(column, given[column]) for column in self.columns}
        name = given[next(iter(self.columns))]
        if name in self.expected.outcomes:
            raise ValueError(f"two rows are called {name}")
        partition = given[self.partition_column] if self.partition_column else "0"
        if partition == "G":
            raise ValueError("a partition can't be called G: that is the source's watermark")
        offset = self.offsets.get(partition, 0)
        self.offsets[partition] = offset + 1

        event_time, reject = None, None
        if values[self.time] is None:
            reject = "null_event_time"
        else:
            try:
                event_time = parse_time(self.kind, str(values[self.time]))
            except ValueError:
                reject = "unparseable"
        if any(values[c] is None for c, type_ in self.columns.items() if type_.endswith("NOT NULL")):
            reject = reject or "not_null"
        self.expect_row(name, wanted)
        strategy = self.strategy(given, event_time)
        return TranscriptRow(name, partition, offset, event_time, reject, strategy, values)

    def strategy(self, given: dict[str, str], event_time: int | None) -> int | None:
        """The value of the strategy for a row."""
        simple = re.fullmatch(rf"{self.time}(?: ([-+]) (?:INTERVAL '(.+)'|(\d+)))?", self.watermark)
        if simple is None:
            return None if given["strategy"] == "null" else self.ticks(given["strategy"])
        sign, interval, number = simple.groups()
        if event_time is None or sign is None:
            return event_time
        length = parse_length(self.kind, interval or number)
        return event_time - length if sign == "-" else event_time + length

    def expect_row(self, name: str, wanted: dict[str, str]) -> None:
        outcome, _, reason = wanted.get("outcome", "").partition(":")
        outcome = outcome.strip().replace(" ", "_") or "on_time"
        missed, late_by = wanted.get("missed", ""), wanted.get("late_by", "")
        stated = {"on_time": "", "late": "missed", "rejected": "reason"}[outcome]
        if ("missed" if missed else "reason" if reason else "") != stated:
            raise ValueError(f"row {name}: {outcome} needs {stated or 'nothing else'}")
        self.expected.outcomes[name] = Outcome(
            outcome,
            self.ticks(missed) if missed else None,
            parse_length(self.kind, late_by) if late_by else None,
            reason.strip() or None,
        )
        after = wanted.get("Wp", "")
        if after:
            self.expected.watermark_after[name] = None if after == "none" else self.ticks(after)

    def flush(self, wanted: dict[str, Any]) -> Flush:
        if wanted.keys() - {"watermarks", "emitted", "shows"}:
            raise ValueError(f"a flush expects watermarks, emitted or shows, not {sorted(wanted)}")
        marks = wanted.get("watermarks", {}).items()
        tables = {False: wanted.get("shows", {}), True: wanted.get("emitted", {})}
        for closing, given in tables.items():
            strange = given.keys() - {v.name for v in self.views if v.emit_on_window_close == closing}
            if strange:
                raise ValueError(
                    f"EMIT ON WINDOW CLOSE views are `emitted`, others `shows`: {sorted(strange)}"
                )
        for view in self.views:
            if view.name in tables[view.emit_on_window_close]:
                text = tables[view.emit_on_window_close][view.name]
                groups = [self.group(view, cells) for cells, _ in _table(text)]
                before = self.expected.views.get(view.name, []) if view.emit_on_window_close else []
                self.expected.views[view.name] = before + groups
            elif view.emit_on_window_close:
                self.expected.views.setdefault(view.name, [])
            else:
                self.expected.views.pop(view.name, None)
        return Flush(
            Snapshot(
                outcomes=dict(self.expected.outcomes),
                watermarks={p: None if text == "none" else self.ticks(text) for p, text in marks},
                views={name: list(groups) for name, groups in self.expected.views.items()},
                watermark_after=dict(self.expected.watermark_after),
            )
        )

    def group(self, view: ViewSpec, cells: dict[str, str]) -> Group:
        group: Group = {}
        for column, text in cells.items():
            if column in ("window_start", "window_end"):
                group[column] = self.ticks(text)
            elif column in view.keys:
                group[column] = self.value(column, text)
            elif text == "null":
                group[column] = None
            else:
                function, argument = view.aggregates[column]
                as_argument = function in ("min", "max")
                group[column] = self.value(argument, text) if as_argument else Decimal(text)
        return group

    def value(self, column: str, text: str) -> Any:
        """A cell as the column's type; a time stays text (it may be one that can't be read)."""
        type_ = self.columns[column].removesuffix(" NOT NULL")
        if text == "null":
            return None
        if type_ in ("TIMESTAMP", "TIMESTAMPTZ"):
            return self.dated(text)
        # A BIGINT time that can't be read stays text, too.
        if type_ == "BIGINT" and re.fullmatch(r"-?\d+", text):
            return int(text)
        return Decimal(text) if type_ == "DECIMAL" else float(text) if type_ == "DOUBLE" else text

    def ticks(self, text: str) -> int:
        return parse_time(self.kind, self.dated(text))

    def dated(self, text: str) -> str:
        return f"{self.day} {text}" if self.day and re.match(r"\d\d:\d\d", text) else text


def _table(text: str) -> Iterable[tuple[dict[str, str], dict[str, str]]]:
    """Rows of a text table as dicts: what is left of `||`, and what is right of it."""
    lines = [line for line in text.splitlines() if line.strip()]
    header, *body = [[_cells(half) for half in (line + " || ").split("||")[:2]] for line in lines]
    for line in body:
        # Nothing right of `||` (or no `||` at all) is a row of blanks.
        line[1] = line[1] or [""] * len(header[1])
        if [len(half) for half in line] != [len(half) for half in header]:
            raise ValueError(f"a row doesn't fit its header {header}: {line}")
        left, right = (dict(zip(h, c, strict=True)) for h, c in zip(header, line, strict=True))
        yield left, right


def _cells(half: str) -> list[str]:
    return [cell.strip() for cell in half.split("|")] if half.strip() else []
