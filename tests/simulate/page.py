"""What a long run leaves on docs/simulator.md: its figures, and how often each fault met each step."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import ROOT
from tests.simulate.campaign import Tally
from tests.simulate.scripts.steps import STEPS
from tests.simulate.world.outside import FAULTS

PAGE = ROOT / "docs" / "simulator.md"
#: How often each fault is to meet each step in a run of 20,000 seeds.
LEAST = 100


def pairs() -> list[tuple[str, str]]:
    """Each step that faults are wished for, with each fault that can meet it."""
    return [(step, fault) for step in STEPS for fault in FAULTS[step.partition(" ")[0]]]


def rare(tally: Tally, least: int = LEAST) -> list[tuple[str, int]]:
    """The pairs that were met less often, the rarest first."""
    met = [(f"{step}: {fault}", tally.pairs[f"{step}: {fault}"]) for step, fault in pairs()]
    return sorted((one for one in met if one[1] < least), key=lambda one: (one[1], one[0]))


def figures(tally: Tally) -> str:
    """The part of the page that a run writes."""
    middle = tally.medians()
    known = {f"{step}: {fault}" for step, fault in pairs()}
    others = sum(n for pair, n in tally.pairs.items() if pair not in known)
    failed = f"{len(tally.failures):,} failed" if tally.failures else "every promise was kept in each"
    few = rare(tally)
    lines = [
        f"* {tally.seeds:,} histories; {failed}",
        f"* CPU: {tally.cpu_seconds / max(tally.seeds, 1):.2f} seconds a history, with the start of its process",
        f"* a history in the middle: {middle['steps']:g} I/O steps, {middle['batches']:g} batches, "
        f"{middle['partitions']:g} partitions, {middle['faults']:g} faults",
        f"* {tally.pairs.total():,} faults met a step, {others:,} of them one that nothing was wished for",
        f"* pairs that were met fewer than {LEAST} times: "
        + (", ".join(f"{pair} ({n})" for pair, n in few) if few else "none"),
    ]
    return "\n".join(lines) + f"\n\n{table(tally)}"


def table(tally: Tally) -> str:
    """How often each fault met each step; a dash where it can't."""
    faults = list(dict.fromkeys(fault for _, fault in pairs()))
    lines = [f"| step | {' | '.join(faults)} |", f"|---|{'---:|' * len(faults)}"]
    for step in STEPS:
        possible = FAULTS[step.partition(" ")[0]]
        cells = (f"{tally.pairs[f'{step}: {fault}']:,}" if fault in possible else "–" for fault in faults)
        lines.append(f"| {step} | {' | '.join(cells)} |")
    return "\n".join(lines)


def write(path: Path, tally: Tally) -> None:
    """Put them between the marks of the page."""
    from tests.soak.page import write_docs

    write_docs(path, figures(tally))
