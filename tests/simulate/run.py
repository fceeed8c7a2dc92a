"""`make simulate`: random histories of the engine on a simulated outside, each from one seed.

python -m tests.simulate.run --seeds 20000           # goes on where it was stopped
python -m tests.simulate.run --seed 1234             # one history, as a script; a failing one is made smaller
python -m tests.simulate.run --script FILE           # one that was printed
python -m tests.simulate.run --write-docs            # what the last long run saw, into docs/simulator.md
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from pathlib import Path

from tests.mutants.tree import digest, files
from tests.simulate.campaign import Progress, Tally, play_all, tally_of
from tests.simulate.page import LEAST, PAGE, rare, write

#: Where a long run takes down what it has done.
PROGRESS = Path(".tidegate/simulate/progress.json")
#: What a history depends on.
PLAYED = ("platform/", "tests/simulate/", "tests/inprocess/", "tests/oracles/")


def main(given: list[str] | None = None) -> int:
    """0: all promises were kept; 1: some were broken."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulate.run",
        description="Random histories of crashes, conflicts and lost answers",
    )
    parser.add_argument("--seeds", type=int, default=1000, help="how many histories (1000)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--seed", type=int, help="play this one, and print it")
    parser.add_argument("--script", type=Path, help="play the history in this file")
    parser.add_argument("--processes", type=int, default=2, help="how many processes share the seeds (2)")
    parser.add_argument("--progress", type=Path, default=PROGRESS, help=f"what was done ({PROGRESS})")
    parser.add_argument("--afresh", action="store_true", help="forget what was done before")
    parser.add_argument(
        "--write-docs", action="store_true", help="put the figures of what was done into docs/simulator.md"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    asked = parser.parse_args(given)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if asked.seed is not None or asked.script is not None:
        return one(asked.seed, asked.script)
    if asked.write_docs:
        write(PAGE, tally_of(asked.progress))
        return 0
    if asked.afresh:
        asked.progress.unlink(missing_ok=True)
    progress = Progress(asked.progress, asked.first, asked.seeds, _version())
    began, before, shown = time.monotonic(), progress.tally.seeds, [0.0]

    def say(tally: Tally) -> None:
        if time.monotonic() - shown[0] < 10:
            return
        shown[0] = time.monotonic()
        rate = (tally.seeds - before) / (shown[0] - began)
        left = (asked.seeds - tally.seeds) / rate / 60 if rate else 0
        print(
            f"{tally.seeds:,} of {asked.seeds:,} seeds, {rate:.1f} a second, {left:.0f} minutes left; "
            f"{len(tally.failures)} failed",
            file=sys.stderr,
        )

    tally = play_all(progress, asked.processes, say)
    seconds = time.monotonic() - began
    if asked.json:
        print(json.dumps(tally.to_dict()))
    else:
        print(_told(tally, seconds, tally.seeds - before))
    return 1 if tally.failures else 0


def one(seed: int | None, file: Path | None) -> int:
    """Play one history; a failing one is made smaller."""
    from tests.inprocess.session import without_a_jvm
    from tests.simulate.play import play
    from tests.simulate.scripts.script import Script, script_of
    from tests.simulate.scripts.shrinking import shrink

    script = script_of(seed or 0) if file is None else Script.of_text(file.read_text("utf-8"))
    with without_a_jvm():
        played = play(script)
        print(played.script.text())
        if played.wrong is None:
            print(f"every promise was kept: {played.steps} steps, {played.batches} batches")
            return 0
        print(f"wrong: {played.wrong}\nIt is made smaller …", flush=True)
        least = shrink(played.script, lambda text: print(f"  {text}", flush=True))
    print(f"{least.script.text()}wrong: {least.wrong}")
    return 1


def _told(tally: Tally, seconds: float, now: int) -> str:
    middle = tally.medians()
    lines = [
        f"{tally.seeds:,} histories, {tally.cpu_seconds / max(tally.seeds, 1):.2f} CPU-seconds each"
        + (f"; {now:,} of them now, {now / seconds * 3600:,.0f} an hour" if now else ""),
        f"in the middle {middle['steps']:g} I/O steps, {middle['batches']:g} batches, "
        f"{middle['partitions']:g} partitions, {middle['faults']:g} faults",
        f"{len(tally.pairs)} pairs of a step and a fault, {tally.pairs.total():,} faults in all",
    ]
    if few := rare(tally, LEAST * tally.seeds // 20_000):
        lines.append(f"met too seldom: {', '.join(f'{pair} ({n})' for pair, n in few)}")
    for seed, text in sorted(tally.failures.items()):
        lines.append(f"\nseed {seed} failed: {text}")
    lines.append(f"{len(tally.failures)} failed" if tally.failures else "every promise was kept")
    return "\n".join(lines)


def _version() -> str:
    """Of the code that is played and of what plays it: what another one did counts for nothing."""
    return digest([name for name in files() if name.startswith(PLAYED)])


if __name__ == "__main__":
    sys.exit(main())
