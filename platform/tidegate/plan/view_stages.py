"""The stages of a view: what is read of each input, each step of its query with the watermarks there, the sink."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tidegate.plan import differences as differ
from tidegate.plan.differences import Difference
from tidegate.plan.marks import ColumnWatermark, derived_kind, kind_of
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.objects import Input, Node, Object, Relation, SystemTable, View
from tidegate.sql.dialect.types import display
from tidegate.watermark import Sessions, TimeKind

Facts = tuple[tuple[str, str], ...]


#: Of all stored tables, or what tells that of a table.
Namespace = str | Callable[[str], str]


#: How a slice is computed: from panes or sessions that tasks make of the log's files; frame by frame, with what the
#: tick before has carried (C5); or by the view's query.
Way = Literal["panes", "frames", "query"]


@dataclass(frozen=True)
class SliceStage:
    """Cuts out of the inputs what became final since the last time (C2, C4, C6). `way`: how that is computed."""

    name: str
    reads: Facts
    final: Facts
    watermarks: tuple[ColumnWatermark, ...]
    differences: tuple[Difference, ...] = ()
    node: str = "slice"
    way: Way = "query"

    def facts(self) -> list[tuple[str, str]]:
        """(label, text) lines."""
        return [*self.reads, *self.final]


@dataclass(frozen=True)
class StepStage:
    """One step of the query. `lost`: the columns whose watermark ends here, and why (D1, D4)."""

    name: str
    lost: Facts
    watermarks: tuple[ColumnWatermark, ...]
    differences: tuple[Difference, ...] = ()
    node: str = "step"

    def facts(self) -> list[tuple[str, str]]:
        """(label, text) lines."""
        return [("lost", f"{column}: {why}") for column, why in self.lost]


@dataclass(frozen=True)
class ViewStage:
    """The sink: the view's table, which takes the slice's result and the new frontier in one commit (R2)."""

    name: str
    table: str
    emits: str
    group_columns: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    watermarks: tuple[ColumnWatermark, ...]
    differences: tuple[Difference, ...] = ()
    node: str = "sink"

    def facts(self) -> list[tuple[str, str]]:
        """(label, text) lines."""
        lines = [
            ("table", self.table),
            ("emits", self.emits),
            ("columns", ", ".join(f"{name} {kind}" for name, kind in self.columns)),
        ]
        if self.group_columns:
            lines.append(("group by", ", ".join(self.group_columns)))
        return lines


@dataclass(frozen=True)
class CompareStage:
    """Finds the closed windows whose stored rows are not what the query gives (B1)."""

    name: str
    table: str
    absorbs: bool
    watermarks: tuple[ColumnWatermark, ...] = ()
    differences: tuple[Difference, ...] = ()
    node: str = "compare"

    def facts(self) -> list[tuple[str, str]]:
        """(label, text) lines."""
        rows = "late rows included" if self.absorbs else "from the rows that they have already"
        return [
            ("table", self.table),
            ("compares", f"the rows of closed windows with what the query gives now, {rows} (B1)"),
        ]


@dataclass(frozen=True)
class RevisionStage:
    """The sink of an amendment or a backfill: revisions of the windows that were found to differ, in one commit with
    what was absorbed (B1-B3)."""

    name: str
    table: str
    absorbs: bool
    watermarks: tuple[ColumnWatermark, ...] = ()
    differences: tuple[Difference, ...] = ()
    node: str = "revise"

    def facts(self) -> list[tuple[str, str]]:
        """(label, text) lines."""
        late = ", late rows included" if self.absorbs else ""
        replaced = f"closed windows whose rows are not what the query gives now{late} (B1)"
        return [
            ("table", self.table),
            ("replaces", replaced),
            ("keeps", f'the earlier rows, as revisions in "{self.name}$revisions" (B2)'),
        ]


@dataclass(frozen=True)
class KeepStage:
    """The beginning of a rebuild where rows are gone: what can't be computed again is kept (E5)."""

    name: str
    table: str
    watermarks: tuple[ColumnWatermark, ...] = ()
    differences: tuple[Difference, ...] = ()
    node: str = "keep"

    def facts(self) -> list[tuple[str, str]]:
        """(label, text) lines."""
        return [
            ("table", self.table),
            ("keeps", "the old results whose rows are beyond their retention, if there are any (E5)"),
            ("records", "valid_from: results that end before it are those of the old query"),
        ]


@dataclass(frozen=True)
class SwapStage:
    """The end of a rebuild: new results take the place of the old ones in one commit (R4)."""

    name: str
    table: str
    watermarks: tuple[ColumnWatermark, ...] = ()
    differences: tuple[Difference, ...] = ()
    node: str = "swap"

    def facts(self) -> list[tuple[str, str]]:
        """(label, text) lines."""
        return [
            ("table", self.table),
            ("replaces", "schema, rows and definition together, in one commit (R4)"),
            ("keeps", "the old results, under a tag of the table"),
        ]


def way_of(view: View) -> Way:
    """How a tick of the view is computed: the one place that says so. Panes cost the least; a frame needs the rows
    before it, which the tick before has carried; whatever is neither is SQL."""
    if view.over is not None:
        return "frames"
    return "query" if view.pane_windows is None else "panes"


def stored_as(namespace: Namespace, name: str) -> str:
    """Namespace and name of a stored table."""
    return f"{namespace if isinstance(namespace, str) else namespace(name)}.{name}"


def view_stages(
    catalog: Catalog, view: View, namespace: Namespace, steps: bool
) -> list[SliceStage | StepStage | ViewStage]:
    """Slice, steps (with `steps`), sink."""
    sources = {name: _source(catalog, name) for name in view.reads}
    inputs = tuple(i.name for i in view.inputs)
    kinds = [kind_of(sources[name]) for name in inputs]

    def marks(node: Node) -> tuple[ColumnWatermark, ...]:
        return tuple(ColumnWatermark(c, d, derived_kind(d, kinds), inputs) for c, d in node.columns)

    clock = () if view.clock is None else (ColumnWatermark("W", view.clock, view.kind, inputs),)
    accounted = (differ.LATE_IN_WINDOWS,) if view.accounts is not None else ()
    reads = tuple(("reads", _reads(view, entry, sources[entry.name])) for entry in view.inputs)
    first: list[SliceStage | StepStage | ViewStage] = [
        SliceStage(view.name, (*_window(view), *reads), _final(view), clock, accounted, way=way_of(view))
    ]
    if steps:
        first += [StepStage(node.name, node.lost, marks(node)) for node in view.derived[:-1]]
    # The last node is the query's result: its columns are the view's.
    carried = marks(view.derived[-1]) if view.derived else ()
    columns = tuple((c.name, display(c.type)) for c in view.columns)
    counted = ", with the rows of each window counted (A1)" if view.accounts is not None else ""
    table = f"{stored_as(namespace, view.name)}, Iceberg{counted}"
    return [*first, ViewStage(view.name, table, _emits(view), view.group_columns, columns, carried)]


def _source(catalog: Catalog, name: str) -> Object:
    found = catalog.get(name)
    assert not isinstance(found, SystemTable)
    return found


def _window(view: View) -> Facts:
    if view.accounts is None:
        return ()
    time = view.accounts.time_column
    if view.accounts.shift:
        sign = "-" if view.accounts.shift < 0 else "+"
        time += f" {sign} {view.kind.format_duration(abs(view.accounts.shift))}"
    return (("window", f"{view.accounts.window.describe(view.kind)} over {time}"),)


def _reads(view: View, entry: Input, source: Object) -> str:
    """What is read of one input, and from where to where."""
    if entry.lookup:
        return f"all rows of {entry.name} at the tick; the snapshot is recorded (B1)"
    if isinstance(source, Relation):
        rows = f"on-time rows of {source.name}" if source.kind != "gate" else f"rows of {source.name}"
        time = entry.time_column
    else:
        rows = (
            f"final rows of {source.name}"
            if view.emit_on_window_close
            else f"rows of {source.name}, with those of open windows"
        )
        time = "window_end"
    bounds = _bounds(view, entry, time, kind_of(source))
    return f"{rows}, at one snapshot: {bounds}" if bounds else f"all {rows}, at one snapshot"


def _bounds(view: View, entry: Input, time: str | None, kind: TimeKind | None) -> str:
    """`frontier - 1 hour < ts < W`: the engine's bounds in words (`Pinned.rows`)."""
    if entry.time_column is None or kind is None or view.clock is None:
        return ""
    start = "frontier" if view.open_sql is None else "least(frontier, earliest open session)"
    low = high = ""
    if entry.low is not None:
        sign, bound = _bound(start, entry.low, kind, "≤", "<")
        low = f"{bound} {sign} "
    if entry.high is not None and view.emit_on_window_close:
        sign, bound = _bound("W", entry.high, kind, "<", "≤")
        high = f" {sign} {bound}"
    return f"{low}{time}{high}" if low or high else ""


def _bound(mark: str, ticks: int, kind: TimeKind, sign: str, near: str) -> tuple[str, str]:
    """(sign, bound): of the two ways to say it, at this tick or at the one before, the one with the rounder length."""
    exact, before = _offset(mark, ticks, kind), _offset(mark, ticks - 1, kind)
    return (sign, exact) if len(exact) <= len(before) else (near, before)


def _offset(mark: str, ticks: int, kind: TimeKind) -> str:
    if ticks == 0:
        return mark
    return f"{mark} {'-' if ticks < 0 else '+'} {kind.format_duration(abs(ticks))}"


def _final(view: View) -> Facts:
    if view.clock is None:
        return (
            ("final", "no row, because there is no watermark; all rows are recomputed when an input changes"),
        )
    if view.over is not None:
        rule = "rows whose frames are complete: frontier < where the last frame ends ≤ W, once, in order (C5)"
    elif view.open_sql is not None:
        rule = "sessions with frontier < last event + gap ≤ W (C3)"
    elif view.order:
        rule = "rows with a time below W and not below the frontier, once, sorted (C4)"
    elif view.accounts is None and not _has_window(view):
        rule = "groups whose time is below W and not below the frontier (C6)"
    else:
        rule = "windows with frontier < window_end ≤ W (C2)"
    facts = [("final", f"{rule}; nothing is dropped here (W3)")]
    if not view.emit_on_window_close:
        facts.append(("open", "all later rows; they are recomputed at each tick"))
    if view.pane_windows is not None:
        window = view.pane_windows.window
        parts = "sessions that are joined"
        if not isinstance(window, Sessions):
            parts = f"panes of {view.kind.format_duration(window.slide)}"
        facts.append(
            (
                "computed",
                f"in {parts}, by tasks that read the log's files, or by SQL if the tasks can't read them",
            )
        )
    return tuple(facts)


def _has_window(view: View) -> bool:
    calls = ("TUMBLE", "HOP", "CUMULATE", "SESSION")
    return any(node.name.upper().startswith(calls) for node in view.derived)


def _emits(view: View) -> str:
    if view.clock is None:
        return "the whole result, which is replaced as new rows arrive (C2)"
    if not view.emit_on_window_close:
        return "final rows once; open rows, too, which are replaced as new rows arrive (C2)"
    if view.order:
        return "each row once, when it is final, in the order of its time; rows are only ever appended (C4)"
    return "each row once, when it is final; rows are only ever appended (C2)"
