"""What a run of `make chaos` was asked for and has done, and what of it proves nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.pipeline import TARGETS
from tests.chaos.replay import Verdict


@dataclass(frozen=True)
class Options:
    """Of one run. `idle_seconds`: the source's idle_timeout; `seconds_per_kill`: how long the load lasts; `small`: with
    a Spark for few rows."""

    rows: int = 2_000_000
    kills: int = 50
    broker_kills: int = 5
    seed: int = 1
    idle_seconds: int = 20
    interval: str = "1s"
    keep: Path | None = None
    seconds_per_kill: float = 15.0
    small: bool = False


@dataclass
class Report:
    """What happened, and what was found. `failures`: beside the verdict's differences."""

    options: dict[str, Any]
    sent: int = 0
    sent_again: int = 0
    in_topic: int = 0
    kills: dict[str, int] = field(default_factory=dict)
    starts: int = 0
    load_seconds: float = 0.0
    catch_up_seconds: float = 0.0
    check_seconds: float = 0.0
    verdict: dict[str, Any] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    @property
    def differences(self) -> int:
        return sum(self.verdict.get("differences", {}).values()) + len(self.failures)


def vacuous(verdict: Verdict) -> list[str]:
    """A comparison of nothing proves nothing."""
    outcomes = {f"{o} rows": verdict.outcomes[o] for o in ("on_time", "late", "rejected")}
    counted = outcomes | {"windows": verdict.windows, "sorted rows": verdict.sorted_rows}
    return [f"there were no {what}" for what, count in counted.items() if not count]


def summary(report: Report) -> str:
    """For people."""
    v, k = report.verdict, report.kills
    lines = [f"rows sent                {report.sent:>12,}   ({report.sent_again:,} sent again)"]
    lines += [f"rows in the topic        {report.in_topic:>12,}"]
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
        ]
    spread = ", ".join(f"{name} {k[name]}" for name in TARGETS)
    lines += [f"kills survived           {sum(k[t] for t in TARGETS):>12,}   ({spread})"]
    lines += [f"broker kills survived    {k['broker']:>12,}"]
    times = f"load {report.load_seconds} s, catching up {report.catch_up_seconds} s, checks {report.check_seconds} s"
    lines += [f"differences              {report.differences:>12,}   ({times})"]
    lines += [f"FAILED: {failure}" for failure in report.failures]
    for kind, examples in v.get("examples", {}).items():
        lines += [
            f"DIFFERENT ({v['differences'][kind]:,}): {kind}",
            *(f"    {example}" for example in examples),
        ]
    return "\n".join(lines)
