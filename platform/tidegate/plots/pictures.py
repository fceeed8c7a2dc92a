"""The pictures of a source or view, by name: what is measured and what is stored, turned into plain numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tidegate import plots
from tidegate.sql.options.connectors import ReplayOptions
from tidegate.store import load_table
from tidegate.store.status import read_status
from tidegate.store.status_values import RelationStatus
from tidegate.store.timeline import Moment, read_closes, read_timeline
from tidegate.watermark import TimeKind

if TYPE_CHECKING:
    from tidegate.advise.advice import Advice
    from tidegate.advise.windows import WindowRows
    from tidegate.project import Project
    from tidegate.sql.catalog.objects import Relation

#: Partitions that a picture shows: those that hold the watermark back, then those with the most rows.
SHOWN_PARTITIONS = 6
#: Views whose closing is marked.
SHOWN_VIEWS = 4


def of_advice(
    advice: Advice,
    width: float = 7.0,
    height: float = 3.6,
    only: Sequence[str] = ("completeness", "lateness", "source_watermark"),
) -> dict[str, bytes]:
    """Those of `only`; `source_watermark` where it could be tried: PNG bytes. Inches are those of `completeness`."""
    timed = advice.kind is not TimeKind.EPOCH
    declared = advice.declared_delay
    if declared is not None and declared < 0:
        declared = None
    marks = {"knee": advice.knee, "declared": declared, "recommended": advice.recommended}
    found = {}
    if "completeness" in only:
        found["completeness"] = plots.completeness(
            advice.source,
            [advice.seconds(d) for d in advice.curve.delays],
            advice.curve.shares,
            advice.rows,
            {n: (advice.seconds(d), advice.curve.at(d)) for n, d in marks.items() if d is not None},
            timed,
            width,
            height,
        )
    now = None if declared is None else advice.seconds(declared)
    if "lateness" in only:
        before, needed = 0, {}
        for delay, count in zip(advice.curve.delays, advice.curve.counts, strict=True):
            needed[advice.seconds(delay)] = count - before
            before = count
        found["lateness"] = plots.lateness(advice.source, needed, now, timed)
    if "source_watermark" in only and advice.delays_over_time:
        series = {
            p: [(float(offset), advice.seconds(delay)) for offset, _, delay in points]
            for p, points in advice.delays_over_time.items()
        }
        found["source_watermark"] = plots.delays(advice.source, series, now)
    return found


def of_history(project: Project, relation: Relation, views: Sequence[str] = ()) -> dict[str, bytes]:
    """`watermarks` and, where its event time is near the clock, `lag`, from the history in the log; {} where there is
    none, or where the times have no unit. No JVM. `views`: whose closing is marked. Raises TG620 if the log can't be
    read."""
    table = load_table(project.storage, relation.name)
    mark = relation.watermark
    if table is None or mark is None or mark.kind is TimeKind.EPOCH:
        return {}
    status = read_status(project, [relation.name], ask_brokers=False).relations[0]
    names = shown(status)
    moments = read_timeline(project.storage, table, names)
    if not moments:
        return {}
    per_tick = 86_400.0 if mark.kind is TimeKind.DATE else 1e-6
    closes = {}
    for view in views[:SHOWN_VIEWS]:
        stored = load_table(project.storage, view)
        if stored is not None and stored.properties.get("tidegate.time-kind") == mark.kind.name:
            closes[view] = [(at, frontier * per_tick) for at, frontier in read_closes(stored)]
    found = {"watermarks": timeline(relation.name, moments, names, closes, per_tick)}
    if not isinstance(relation.connector, ReplayOptions):
        found["lag"] = lag(relation.name, moments, per_tick)
    return found


def shown(status: RelationStatus) -> list[str]:
    """The partitions that a picture shows, by name."""
    ranked = sorted(
        status.partitions,
        key=lambda p: (p.partition not in status.holds_back, -(p.on_time + p.late + p.rejected), p.partition),
    )
    return sorted(p.partition for p in ranked[:SHOWN_PARTITIONS])


def timeline(
    source: str,
    moments: Sequence[Moment],
    names: Sequence[str],
    closes: Mapping[str, Sequence[tuple[float, float]]],
    per_tick: float,
) -> bytes:
    """`plots.watermark_timeline` of a history; `per_tick`: seconds."""
    return plots.watermark_timeline(
        source,
        [m.at for m in moments],
        [_scaled(m.published, per_tick) for m in moments],
        {n: [_mark(m, n, per_tick) for m in moments] for n in names},
        closes,
    )


def _mark(moment: Moment, partition: str, per_tick: float) -> tuple[float | None, str | None]:
    mark, state = moment.partitions.get(partition, (None, None))
    return _scaled(mark, per_tick), state


def lag(source: str, moments: Sequence[Moment], per_tick: float) -> bytes:
    """`plots.lag` of a history; `per_tick`: seconds."""
    marks = [_scaled(m.published, per_tick) for m in moments]
    newest = [_scaled(m.newest, per_tick) for m in moments]
    return plots.lag(
        source,
        [m.at for m in moments],
        [None if mark is None else m.at - mark for m, mark in zip(moments, marks, strict=True)],
        [
            None if mark is None or top is None else top - mark
            for top, mark in zip(newest, marks, strict=True)
        ],
    )


def of_windows(view: str, windows: Sequence[WindowRows]) -> bytes:
    """`plots.reconciliation` of a view's windows."""
    return plots.reconciliation(
        view,
        [w.end for w in windows],
        raw=[w.raw for w in windows],
        counted=[w.counted for w in windows],
        late=[w.late for w in windows],
        filtered=[w.filtered for w in windows],
        rejected=[w.rejected for w in windows],
    )


def _scaled(ticks: int | None, per_tick: float) -> float | None:
    return None if ticks is None else ticks * per_tick
