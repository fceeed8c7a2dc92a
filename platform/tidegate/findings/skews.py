"""Whether the clock of a producer is off: event times against arrivals, over a few commits."""

from __future__ import annotations

from bisect import bisect_left
from statistics import median

from tidegate.findings.facts import SourceFacts
from tidegate.findings.model import Candidate, Finding, Waiting
from tidegate.project.jobs.stalls import StallLimits
from tidegate.project.reading.durations import format_duration
from tidegate.watermark import TimeKind

#: Commits with new event times that are needed before a clock is called skewed.
_FEWEST_OFFSETS = 3

Windows = tuple[Waiting, ...]
_MICROS = 1_000_000


def is_skewed(source: SourceFacts, limits: StallLimits) -> bool:
    """Whether the clock of some producer seems to be off."""
    return bool(skews(source, limits, ()))


def skews(source: SourceFacts, limits: StallLimits, waiting: Windows) -> dict[str, list[Candidate]]:
    """Of each partition whose event times are steadily off: ahead of the clock, or behind the other partitions."""
    if not source.live or source.kind not in (TimeKind.TIMESTAMP, TimeKind.TIMESTAMPTZ):
        return {}
    offsets = {name: _offsets(source, name) for name in source.history[-1].partitions}
    limit = limits.clock_skew
    # Those that are ahead themselves are no measure.
    good = sorted(s[-1][1] for s in offsets.values() if len(s) >= _FEWEST_OFFSETS and s[-1][1] <= limit)
    found: dict[str, list[Candidate]] = {}
    for name, series in offsets.items():
        if len(series) < _FEWEST_OFFSETS:
            continue
        values = [offset for _, offset in series]
        off, others = median(values), _middle(good, values[-1])
        if max(values) - min(values) > limit:
            continue
        if min(values) > limit:
            text = f"event times are {format_duration(off)} ahead of the clock"
        elif others is not None and max(values) < others - limit:
            off -= others
            text = f"event times are {format_duration(-off)} behind those of the other partitions"
        else:
            continue
        found[name] = [_skew(source, name, text, off, series[0][0], waiting)]
    return found


def _middle(values: list[float], left_out: float) -> float | None:
    """The median of sorted values without one of them, if it is one of them; None if nothing is left."""
    k = bisect_left(values, left_out)
    if k == len(values) or values[k] != left_out:
        return median(values) if values else None
    n = len(values) - 1
    if n == 0:
        return None

    def nth(i: int) -> float:
        return values[i if i < k else i + 1]

    return nth(n // 2) if n % 2 else (nth(n // 2 - 1) + nth(n // 2)) / 2


def _skew(source: SourceFacts, name: str, text: str, off: float, since: float, waiting: Windows) -> Candidate:
    stamped = source.newest.get(name)
    numbers: dict[str, object] = {"skew_seconds": round(off, 3)}
    hint = ""
    if stamped is not None:
        numbers["message_ahead_seconds"] = ahead = round(stamped - source.history[-1].at, 3)
        both = abs(ahead - off) < max(60.0, abs(off) / 4)
        hint = (
            "; the timestamps of its messages are, too"
            if both
            else "; the timestamps of its messages are not"
        )
    if abs(off) >= 900 and abs(off / 900 - round(off / 900)) < 0.05:
        hint += "; the difference is a multiple of a quarter of an hour: is it a time zone?"
    asset, held = source.status.name, name in source.status.holds_back
    finding = Finding(
        kind="producer_skew",
        severity="warning",
        asset=asset,
        partition=name,
        text=f"{asset}, partition {name}: {text}{hint}",
        advice="set the clock or the time zone of the producer; until then its rows "
        + ("hold the watermark back" if off < 0 else "raise the watermark too far: correct rows are late"),
        waiting=waiting if held and off < 0 else (),
        numbers=numbers,
    )
    return Candidate(finding, since)


def _offsets(source: SourceFacts, name: str) -> list[tuple[float, float]]:
    """(when, event time − arrival) at each commit that brought a newer event time, seconds, oldest first."""
    found, before = [], None
    for past in source.history:
        progress = past.partitions.get(name)
        seconds = seconds_of(source.kind, progress.max_event_time) if progress is not None else None
        if progress is None or seconds is None:
            continue
        if before is None or seconds > before:
            came = past.at if progress.quiet_since is None else progress.quiet_since / _MICROS
            found.append((past.at, seconds - came))
        before = seconds
    return found


def seconds_of(kind: TimeKind | None, value: int | None) -> float | None:
    """An event time in seconds since 1970 (a TIMESTAMP as if it were UTC); None where there is no such scale."""
    if value is None or kind not in (TimeKind.TIMESTAMP, TimeKind.TIMESTAMPTZ):
        return None
    return value / _MICROS
