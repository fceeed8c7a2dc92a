"""What `tidegate status` says: read, and drawn at a width. In the process of the command, or in one that was asked."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from tidegate.cli.selection import chosen
from tidegate.console.drawing import draw
from tidegate.console.port import Table
from tidegate.errors import TidegateError, did_you_mean, text_of
from tidegate.live.groups import find_groups
from tidegate.maintenance.erasing import ErasingFile
from tidegate.plan.columns.taken_in import not_declared_text
from tidegate.plan.columns.undeclared import undeclared_text
from tidegate.plan.lost_totals import lost_totals_text
from tidegate.plan.versions import held_text
from tidegate.project.reading.durations import format_duration
from tidegate.session.deployed import changed_definitions
from tidegate.store.attention import attention, document, first_of_all
from tidegate.store.once import read_once
from tidegate.store.status import read_status
from tidegate.wording import counted

if TYPE_CHECKING:
    from tidegate.cli.asked import StatusRequest
    from tidegate.console.port import Console
    from tidegate.errors import TidegateWarning
    from tidegate.maintenance.erasing import Erasing
    from tidegate.project import Project
    from tidegate.sql.catalog.catalog import Catalog
    from tidegate.store.sinks import SinkStatus
    from tidegate.store.status_values import BuildingStatus, ProjectStatus, RelationStatus, ViewStatus

#: Groups of live mode whose cost is shown.
_LOADS = 10


def tell_status(console: Console, project: Project, catalog: Catalog, asked: StatusRequest) -> None:
    """Answer on a console. Raises what `read_status` raises, and TG201 and TG613 for names that are not there."""
    wanted = chosen(catalog, asked.names, asked.select, asked.exclude)
    if asked.group is not None:
        wanted = _members(catalog, asked.group, wanted)
    with read_once():
        found = read_status(project, wanted, catalog=catalog)
        changed = changed_definitions(project, catalog, [x.name for x in found.all])
    erasing = _unfinished(project, found)
    concerned = {*changed, *erasing}
    found = first_of_all(found, concerned, only=asked.failing)
    if console.shape.json:
        data = document(found, concerned)
        data["changed"] = [{"name": name} | w.to_dict() for name, w in changed.items()]
        data["erasing"] = [{"name": name, "by": one.by, "at": one.at} for name, one in erasing.items()]
        console.document(data, "")
        return
    text = render(found, asked.partitions, changed, asked.width)
    if not asked.failing and (wanted is None or asked.group is not None):
        text = "\n\n".join([text, *_loads(found, asked.group, asked.width)])
    hanging, notes = _overdue(found), _of_interest(found, changed, erasing)
    if asked.failing and not attention(found, concerned):
        text = "" if notes or hanging else "nothing needs attention"
    # (People are shown none of the data, which are much more than the text where another process answers.)
    blocks = ("\n".join(hanging), text, "\n".join(notes))
    console.document({}, "\n\n".join(block for block in blocks if block))


def _overdue(found: ProjectStatus) -> list[str]:
    """What nothing else shows: a group that hangs has no error."""
    now = time.time()
    return [
        f"live mode, process {process.pid}: {one.text(now)}"
        for process in found.live
        for one in process.overdue
    ]


def _of_interest(
    found: ProjectStatus, changed: Mapping[str, TidegateWarning], erasing: Mapping[str, Erasing]
) -> list[str]:
    """What people should know beside the figures."""
    notes = [
        f"live mode, process {one.pid}, continues with the earlier definitions: {text_of(one.refused.error)}"
        for one in found.live
        if one.refused is not None
    ]
    notes += [
        f"live mode, process {one.pid}: {member.name} ({member.kind}) fails, try {member.attempt}: "
        f"{f'{member.code}: ' if member.code else ''}{member.message}"
        for one in found.live
        for member in one.failing
    ]
    notes += [f"{w.code}: {w.message}; {w.hint}" for w in changed.values()]
    return notes + [
        f"{name}: an erasure of rows that {one.by} asked for at {one.at} is not finished; if it was interrupted: "
        f"tidegate erase {name} --resume"
        for name, one in erasing.items()
    ]


def _unfinished(project: Project, found: ProjectStatus) -> dict[str, Erasing]:
    """The erasures that have begun and are not finished, by the source. Whose rows they are of is not for
    everybody to see (E9)."""
    files = {r.name: ErasingFile(project.storage, r.name) for r in found.relations}
    return {name: begun for name, file in files.items() if (begun := file.seen()) is not None}


def _members(catalog: Catalog, group: str, wanted: Sequence[str] | None) -> list[str]:
    """The names of a group, those that are wanted. Raises TG201 for a group that is not there."""
    groups = {one.name: one.members for one in find_groups(catalog)}
    members = next((m for name, m in groups.items() if name.casefold() == group.casefold()), None)
    if members is None:
        hint = did_you_mean(group, [*groups]) or f"available groups: {', '.join([*groups][:10])}"
        raise TidegateError("TG201", f'there is no group "{group}"', hint=hint)
    asked = None if wanted is None else {name.casefold() for name in wanted}
    found = [name for name in members if asked is None or name.casefold() in asked]
    if not found:
        raise TidegateError("TG201", f'none of these names is in the group "{group}"', hint="drop --group")
    return found


def render(
    found: ProjectStatus, partitions: bool, changed: Collection[str] = (), width: int | None = None
) -> str:
    """For people: relations, views, sinks, then what needs attention. `changed`: names whose definition is not that of
    what is stored (TG907). `width`: in characters; None: no limit."""
    parts = []
    judged = ["rows", "on time", "late", "rejected", "watermark", "behind newest", "held by", "committed"]
    for what, relations in (("source", found.relations), ("inline gate", found.gates)):
        if relations:
            rows = [_relation_row(r) for r in relations]
            parts.append(draw(Table([what, *judged], rows, unit=None), width))
        for relation in relations if partitions else ():
            parts += _partitions(relation, width)
    if found.views:
        columns = ["view", "final up to", "final rows", "open rows", "up to date", "held by", "committed"]
        parts.append(draw(Table(columns, [_view_row(v, changed) for v in found.views], unit=None), width))
    if found.sinks:
        columns = ["sink", "delivers", "to", "delivered", "waiting", "up to commit", "up to date", "moved"]
        parts.append(draw(Table(columns, [_sink_row(s) for s in found.sinks], unit=None), width))
    notes = [f"{r.name}: {r.broker_error}" for r in found.relations if r.broker_error]
    notes += [f"{r.name}: {undeclared_text(r.undeclared)}" for r in found.relations if r.undeclared]
    notes += [f"{r.name}: {not_declared_text(r.taken_in)}" for r in found.relations if r.taken_in]
    notes += [f"{g.name}: {g.gate}, in {', '.join(g.read_by)}" for g in found.gates]
    for view in found.views:
        notes += _notes(view)
    if not parts:
        notes.append("there are no definitions yet: write CREATE SOURCE … into assets/NAME.sql")
    elif not any(x.ran for x in found.all):
        notes.append("nothing has run yet: tidegate run")
    return "\n\n".join([*parts, *(["\n".join(notes)] if notes else [])])


def _loads(found: ProjectStatus, group: str | None, width: int | None) -> list[str]:
    """What groups of live mode cost, the most expensive first: of one, or of so many as are read at a glance."""
    loads = [load for record in found.live for load in record.loads]
    if group is not None:
        loads = [load for load in loads if load.group.casefold() == group.casefold()]
    if not loads:
        return []
    shown = sorted(loads, key=lambda one: -one.cores)[:_LOADS]
    rows: list[list[object]] = [
        [
            one.group,
            f"{one.cores:.2f}",
            f"{one.busy:.0%}",
            f"{one.rows_per_second:,.1f}",
            one.most_rows,
            f"{one.most_bytes / 1e6:,.1f}",
        ]
        for one in shown
    ]
    columns = ["live group", "cores", "busy", "rows/s", "most rows in a tick", "their MB"]
    parts = [draw(Table(columns, rows, unit=None), width)]
    if len(loads) > len(shown):
        parts.append(f"{counted(len(loads) - len(shown), 'more group')}: tidegate status --json")
    return parts


def _relation_row(r: RelationStatus) -> list[object]:
    behind = "–" if r.behind_newest is None else format_duration(r.behind_newest)
    committed = r.committed_at or "never run"
    held = ", ".join(r.holds_back[:3]) + (", …" if len(r.holds_back) > 3 else "")
    judged = [r.raw, r.on_time, r.late, r.rejected]
    return [r.name, *judged, r.watermark_text, behind, held or "–", committed]


def _view_row(v: ViewStatus, changed: Collection[str]) -> list[object]:
    current = "yes" if v.current else "no" if v.ran else "never run"
    if v.name in changed:
        current = "no: its definition has changed (TG907)"
    held = ", ".join(v.holds_back) or "–"
    return [v.name, v.frontier_text, v.groups, v.open, current, held, v.committed_at or "never run"]


def building_text(building: BuildingStatus) -> str:
    """`version 2 is built: 63 % of the rows are read, about 4m left`."""
    left = building.seconds_left
    rest = "" if left is None else f", about {format_duration(left)} left"
    return f"version {building.version} is built: {building.percent:.0f} % of the rows are read{rest}"


def _notes(v: ViewStatus) -> list[str]:
    found = [] if v.building is None else [f"{v.name}: {building_text(v.building)}"]
    if v.held_at is not None:
        found.append(f"{v.name}: {held_text(v.name, v.held_at)}")
    if v.valid_from is not None:
        found.append(
            f"{v.name}: results that end before {v.valid_from} are of an earlier version (valid_from)"
        )
    found += [
        (
            f"{v.name}: windows that end after {a}, up to {b}, are not known: their rows were "
            "removed before the view ran (R5)"
        )
        for a, b in v.skipped
    ]
    if v.missing is not None:
        found.append(f"{v.name}: {v.missing}, and its next windows need them (R5)")
    if v.goes_back_to_text is not None:
        found.append(
            f"{v.name}: goes back to {v.goes_back_to_text} at its next run, because a watermark "
            "was reset (W9)"
        )
    elif v.frontier is not None and v.clock is not None and v.frontier > v.clock:
        found.append(
            f"{v.name}: closes no window until its inputs, now at {v.clock_text}, have reached "
            f"{v.frontier_text}"
        )
    elif v.emitted_beyond is not None:
        found.append(
            f"{v.name}: results up to {v.emitted_beyond} are from before a reset, until their "
            "windows close again (W9)"
        )
    if v.lost_totals:
        found.append(f"{v.name}: {lost_totals_text(v.lost_totals)}")
    return found


def _sink_row(s: SinkStatus) -> list[object]:
    to = s.connector if s.place == s.connector else f"{s.connector} {s.place}"
    waiting = "–" if s.waiting is None else s.waiting
    reached = "–" if s.tick is None else f"{s.tick} of {s.newest}"
    current = "yes" if s.current else "no" if s.ran else "never run"
    if s.amendments_waiting:
        current = f"no: {s.amendments_waiting} {'amendment waits' if s.amendments_waiting == 1 else 'amendments wait'}"
    if s.goes_on:
        reached, current = "–", "no: a new version waits"
    if s.made_anew:
        reached, current = "–", "no: it has delivered from another table until now (TG542)"
    moved = s.delivered_at or "never run"
    return [s.name, ", ".join(s.delivers), to, s.delivered, waiting, reached, current, moved]


def _partitions(relation: RelationStatus, width: int | None) -> list[str]:
    if not relation.partitions:
        return []
    live = any(p.end_offset is not None for p in relation.partitions)
    columns = ["partition", "state", "on time", "late", "rejected", "watermark", "behind clock", "newest"]
    columns += ["next offset", *(["waiting"] if live else []), "holds back"]
    rows = []
    for p in relation.partitions:
        behind = "–" if p.lag is None else format_duration(p.lag)
        row: list[object] = [p.partition, p.state, p.on_time, p.late, p.rejected, p.watermark_text, behind]
        row += [p.max_event_time_text, p.next_offset]
        rows.append([*row, *([p.lag_rows] if live else []), "yes" if p.holds_back else "–"])
    return [draw(Table(columns, rows, title=f"partitions of {relation.name}", unit=None), width)]
