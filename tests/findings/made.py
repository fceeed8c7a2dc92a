"""Made-up facts for diagnoses: times are seconds from noon of 2026-01-01, UTC."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tidegate.findings import EarlierLooks, Finding, Waiting, diagnose
from tidegate.findings.facts import Past, ProjectFacts, SinkFacts, SourceFacts, ViewFacts
from tidegate.project.jobs.stalls import StallLimits
from tidegate.store.holding import holding_back
from tidegate.store.metadata import ProgressRow
from tidegate.store.sinks import SinkStatus
from tidegate.store.status_values import PartitionStatus, RelationStatus, ViewStatus
from tidegate.store.writers import WriterState
from tidegate.watermark import TimeKind

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp()
_KIND = TimeKind.TIMESTAMPTZ
HELD = WriterState("held", 4711, "here", NOON - 3_600)
WAITS = (Waiting("v", "12:05"),)


def micros(seconds: float | None) -> int | None:
    return None if seconds is None else round((NOON + seconds) * 1e6)


def part(name: str, quiet: float, newest: float | None, **given: Any) -> ProgressRow:
    """A partition to which something last came at `quiet`, with `newest` event time; a minute of delay."""
    mark = given.pop("watermark", None if newest is None else newest - 60)
    counts = {"on_time": 1_000, "late": 0, "rejected": 0, "state": "active"} | given
    offset = counts.pop("next_offset", counts["on_time"] + counts["late"] + counts["rejected"])
    end = counts.pop("end", offset)
    return ProgressRow(
        name,
        watermark=micros(mark),
        published=None,
        max_event_time=micros(newest),
        next_offset=offset,
        end_offset=end,
        quiet_since=micros(quiet),
        **counts,
    )


def source(
    *history: tuple[float, list[ProgressRow]], end: dict[str, int] | None = None, **given: Any
) -> SourceFacts:
    """The source `s`: (when it committed, its partitions), oldest first. `end`: end offsets at the broker now."""
    newest = history[-1][1] if history else []
    marks = [p.watermark for p in newest if p.watermark is not None and p.state not in ("idle", "gone")]
    watermark = min(marks, default=None)
    held = holding_back(watermark, newest)
    live = given.get("live", True)
    shown = []
    for p in newest:
        last = (end or {}).get(p.partition or "", p.end_offset) if live else None
        shown.append(
            PartitionStatus(
                partition=p.partition or "",
                watermark=p.watermark,
                watermark_text=_KIND.format(p.watermark),
                next_offset=p.next_offset,
                on_time=p.on_time,
                late=p.late,
                rejected=p.rejected,
                state=p.state,
                max_event_time=p.max_event_time,
                max_event_time_text=_KIND.format(p.max_event_time),
                end_offset=last,
                lag_rows=None if last is None else last - p.next_offset,
                holds_back=p.partition in held,
                quiet_since=None if p.quiet_since is None else _iso(p.quiet_since / 1e6),
            )
        )
    waits = [p.lag_rows for p in shown if p.lag_rows is not None]
    counts = [sum(getattr(p, o) for p in newest) for o in ("on_time", "late", "rejected")]
    status = RelationStatus(
        name="s",
        kind="source",
        ran=bool(history),
        raw=sum(counts),
        on_time=counts[0],
        late=counts[1],
        rejected=counts[2],
        epoch=len(history),
        time_column="ts",
        time_kind=_KIND.name,
        watermark=watermark,
        watermark_text=_KIND.format(watermark),
        behind_newest=None,
        lag=None,
        holds_back=held,
        partitions=tuple(shown),
        snapshot_id=1 if history else None,
        committed_at=_iso(NOON + history[-1][0]) if history else None,
        lag_rows=sum(waits) if waits else None,
        broker_error=given.pop("broker_error", None),
    )
    past = tuple(Past(NOON + at, {p.partition or "": p for p in parts}) for at, parts in history)
    return SourceFacts(status, _KIND, history=past, **{"live": True, **given})


def view(name: str = "v", **given: Any) -> ViewFacts:
    """A view over `s` whose next window ends at 12:05."""
    status = ViewStatus(
        name=name,
        ran=True,
        reads=("s",),
        emit_on_window_close=True,
        frontier=micros(-60),
        frontier_text=_KIND.format(micros(-60)),
        clock=micros(0),
        clock_text=_KIND.format(micros(0)),
        holds_back=(),
        groups=1,
        open=0,
        current=True,
        behind=60.0,
        snapshot_id=1,
        committed_at=_iso(NOON - 60),
        time_kind=_KIND.name,
    )
    of_status = {k: given.pop(k) for k in list(given) if k in ViewStatus.__dataclass_fields__ and k != "name"}
    facts = ViewFacts(replace(status, **of_status), upstream=("s",), next_end="12:05")
    return replace(facts, **given)


def sink(**given: Any) -> SinkFacts:
    """The sink `out` of the view `v`, which has 100 final rows of 5 commits; all are delivered."""
    facts = {
        "name": "out",
        "delivers": ("v",),
        "connector": "kafka",
        "place": "totals",
        "ran": True,
        "tick": 5,
        "newest": 5,
        "behind": 0,
        "delivered": 100,
        "waiting": 0,
        "current": True,
        "made_anew": False,
        "delivered_at": _iso(NOON - 60),
    }
    facts |= {k: given.pop(k) for k in list(given) if k in SinkStatus.__dataclass_fields__}
    return SinkFacts(SinkStatus(**facts), "v", **{"delivered_upto": "11:55", "final_upto": "11:55"} | given)


def found(
    *sources: SourceFacts,
    at: float = 0.0,
    limits: StallLimits | None = None,
    memory: EarlierLooks | None = None,
    views: tuple[ViewFacts, ...] | None = None,
    sinks: tuple[SinkFacts, ...] = (),
) -> dict[str, Finding]:
    """The findings at `at`, by their keys."""
    facts = ProjectFacts(NOON + at, sources, (view(),) if views is None else views, sinks)
    findings, _ = diagnose(facts, lambda name: limits or StallLimits(), memory)
    return {f.key: f for f in findings}


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def moving(at: float, **late: float) -> tuple[float, list]:
    """A commit at `at`: partitions a and b, ten rows a second each, up to date."""
    rows = {"on_time": int(100_000 + 10 * at)}
    return (at, [part(n, at, at - late.get(n, 0.0), **rows) for n in ("a", "b")])


def silent(seconds: float, state: str = "active", newest: float = 0.0) -> list[tuple[float, list]]:
    return [
        (at, [part("a", at, at, on_time=20_000 + at), part("b", -seconds, -seconds + newest, state=state)])
        for at in (-700, -300, -1)
    ]
