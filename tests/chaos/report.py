"""What a run of `make chaos` was asked for and has done, and what of it proves nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.pipeline import TARGETS
from tests.chaos.replay import Verdict


@dataclass(frozen=True)
class Options:
    """Of one run. `rows`: of all groups; `target_outages`: how often the broker that single groups need is away;
    `idle_seconds`: the sources' idle_timeout; `seconds_per_kill`: how long the load lasts; `small`: with a Spark for
    few rows."""

    rows: int = 2_000_000
    groups: int = 3
    kills: int = 50
    broker_kills: int = 5
    target_outages: int = 3
    seed: int = 1
    idle_seconds: int = 20
    interval: str = "1s"
    keep: Path | None = None
    seconds_per_kill: float = 15.0
    small: bool = False


@dataclass
class Outage:
    """A broker that single groups need was away. `how`: gone, or it hangs; `failures`: of what needs it, as live mode
    told them; `commits`: of each other group's source meanwhile, and again behind a kill meanwhile."""

    how: str
    seconds: float = 0.0
    failures: int = 0
    commits: list[dict[str, int]] = field(default_factory=list)


@dataclass
class Report:
    """What happened, and what was found. `verdict`: of all groups together; `failures`: beside its differences."""

    options: dict[str, Any]
    sent: int = 0
    sent_again: int = 0
    in_topics: int = 0
    kills: dict[str, int] = field(default_factory=dict)
    outages: list[Outage] = field(default_factory=list)
    starts: int = 0
    load_seconds: float = 0.0
    catch_up_seconds: float = 0.0
    check_seconds: float = 0.0
    verdict: dict[str, Any] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    @property
    def differences(self) -> int:
        return sum(self.verdict.get("differences", {}).values()) + len(self.failures)


def vacuous(source: str, verdict: Verdict, with_sink: bool) -> list[str]:
    """A comparison of nothing proves nothing: of one group."""
    outcomes = {f"{o} rows": verdict.outcomes[o] for o in ("on_time", "late", "rejected")}
    counted = outcomes | {"windows": verdict.windows, "sorted rows": verdict.sorted_rows}
    counted |= {"messages of its sink": verdict.messages} if with_sink else {}
    return [f"{source}: there were no {what}" for what, count in counted.items() if not count]


def unfelt(outages: Sequence[Outage]) -> list[str]:
    """An outage that has stopped the other groups, and one that nothing has felt, which proves nothing."""
    wrong = []
    for n, outage in enumerate(outages, 1):
        which = f"outage {n} ({outage.how}, {outage.seconds:.0f} s)"
        if not outage.failures:
            wrong.append(f"{which}: nothing has failed that needs the broker")
        stopped = {source for part in outage.commits for source, count in part.items() if not count}
        wrong += [
            f"{which}: {s} has committed nothing, and does not need the broker" for s in sorted(stopped)
        ]
    return wrong


def summary(report: Report) -> str:
    """For people."""
    v, k = report.verdict, report.kills
    lines = [f"rows sent                {report.sent:>12,}   ({report.sent_again:,} sent again)"]
    lines += [f"rows in the topics       {report.in_topics:>12,}   ({report.options['groups']} groups)"]
    if v:
        lines += [f"rows compared            {v['rows']:>12,}"]
        lines += [
            f"  {outcome:<22} {v['outcomes'].get(outcome, 0):>12,}"
            for outcome in ("on_time", "late", "rejected")
        ]
        lines += [f"batches                  {v['epochs']:>12,}"]
        lines += [f"partitions went idle     {v['idle_decisions']:>12,}   woke {v['wakings']:,}"]
        lines += [f"late after waking        {v['late_after_waking']:>12,}"]
        lines += [
            f"windows compared         {v['windows']:>12,}",
            f"sorted rows compared     {v['sorted_rows']:>12,}",
            f"messages compared        {v['messages']:>12,}",
        ]
    spread = ", ".join(f"{name} {k.get(name, 0)}" for name in TARGETS)
    lines += [f"kills survived           {sum(k.get(t, 0) for t in TARGETS):>12,}   ({spread})"]
    lines += [f"broker kills survived    {k.get('broker', 0):>12,}"]
    lines += [f"outages of a target      {len(report.outages):>12,}   ({_outages(report.outages)})"]
    times = f"load {report.load_seconds} s, catching up {report.catch_up_seconds} s, checks {report.check_seconds} s"
    lines += [f"differences              {report.differences:>12,}   ({times})"]
    lines += [f"FAILED: {failure}" for failure in report.failures]
    for kind, examples in v.get("examples", {}).items():
        lines += [
            f"DIFFERENT ({v['differences'][kind]:,}): {kind}",
            *(f"    {example}" for example in examples),
        ]
    return "\n".join(lines)


def _outages(outages: Sequence[Outage]) -> str:
    kinds = Counter(outage.how for outage in outages)
    commits = sum(sum(part.values()) for o in outages for part in o.commits)
    told = [f"{how} {count}" for how, count in kinds.items()]
    told += [f"{sum(o.seconds for o in outages):.0f} s", f"{sum(o.failures for o in outages)} failures"]
    return ", ".join([*told, f"{commits} commits of other groups meanwhile"])
