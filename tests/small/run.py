"""`make worlds`: every small world, of the oracles and of the engine; goes on where it was stopped.

python -m tests.small.run                    # everything
python -m tests.small.run log windows        # of these kinds
python -m tests.small.run --list             # what there is, and what was played
python -m tests.small.run --processes 2      # by two processes
python -m tests.small.run --write-docs       # what was played, into docs/simulator.md
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from functools import cache
from multiprocessing import get_context
from pathlib import Path

from tests.mutants.tree import digest, files
from tests.small.page import PAGE, figures, write
from tests.small.portions import KINDS, Portion, kind, portions
from tests.small.walk import Counted, WrongError

#: Where a run takes down what it has done, and what that depends on.
PROGRESS = Path(".tidegate/worlds/progress.json")
_PLAYED = (
    "platform/",
    *(f"tests/{one}" for one in ("small/", "simulate/", "inprocess/", "oracles/", "support/worlds")),
)
#: Portions after which a process is a new one: each session that it has opened stays in its memory.
_TASKS = 8


class Progress:
    """What was played of this tree, in a file."""

    def __init__(self, path: Path, any_tree: bool = False) -> None:
        """`any_tree`: as it was taken down, of whichever tree; else what was played of another one is played again."""
        self._path = path
        self.version = digest([name for name in files() if name.startswith(_PLAYED)])
        self.done: dict[str, Counted] = {}
        if path.is_file():
            known = json.loads(path.read_text("utf-8"))
            if any_tree:
                self.version = known["version"]
            if known["version"] == self.version:
                self.done = {name: Counted(**counted) for name, counted in known["done"].items()}

    def add(self, name: str, counted: Counted) -> None:
        """This has been played, and was right."""
        self.done[name] = counted
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_suffix(".new")
        done = {name: asdict(counted) for name, counted in self.done.items()}
        new.write_text(json.dumps({"version": self.version, "done": done}), "utf-8")
        os.replace(new, self._path)

    def totals(self) -> dict[str, Counted]:
        """All of each kind."""
        found = {kind: Counted() for kind in KINDS}
        for name, counted in self.done.items():
            found[kind(name)].add(counted)
        return found


def main(given: list[str] | None = None) -> int:
    """0: all that was asked for is right; 1: something is not."""
    parser = argparse.ArgumentParser(prog="python -m tests.small.run", description="Every small world")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"only these: {', '.join(KINDS)}")
    parser.add_argument("--named", default="", help="only portions whose names have this")
    parser.add_argument("--processes", type=int, default=1, help="how many processes share the portions (1)")
    parser.add_argument("--progress", type=Path, default=PROGRESS, help=f"what was done ({PROGRESS})")
    parser.add_argument("--afresh", action="store_true", help="forget what was done before")
    parser.add_argument("--list", action="store_true", help="print the portions, and which were played")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument(
        "--write-docs", action="store_true", help="put the figures of what was played into docs/simulator.md"
    )
    asked = parser.parse_args(given)
    if unknown := set(asked.kinds) - set(KINDS):
        parser.error(f"no such kind: {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if asked.afresh:
        asked.progress.unlink(missing_ok=True)
    progress = Progress(asked.progress, asked.write_docs)
    wanted = [name for name, _ in portions(asked.kinds or KINDS) if asked.named in name]
    if asked.list:
        for name in wanted:
            print(name + (": played" if name in progress.done else ""))
        return 0
    if asked.write_docs:
        whole = Counter(kind(name) for name, _ in portions())
        write(PAGE, progress.totals(), Counter(map(kind, progress.done)), whole, progress.version)
        return 0
    wrong = play_all(wanted, progress, asked.processes)
    left = sum(name not in progress.done for name in wanted)
    if asked.json:
        totals = {name: asdict(counted) for name, counted in progress.totals().items()}
        print(json.dumps({"wrong": wrong, "left": left} | totals))
    else:
        played, whole = Counter(map(kind, progress.done)), Counter(map(kind, wanted))
        print(figures(progress.totals(), played, whole))
        print("\n".join(wrong) if wrong else "every promise was kept")
    return 1 if wrong else 0


def play_all(wanted: Sequence[str], progress: Progress, processes: int) -> list[str]:
    """Play the portions that were not played. Returns what was wrong."""
    wrong: list[str] = []
    waiting = [name for name in wanted if name not in progress.done]
    whole, began, shown = len(waiting), time.monotonic(), 0.0
    for name, found in _played(waiting, processes):
        if isinstance(found, str):
            wrong.append(f"{name}: {found}")
            print(wrong[-1], file=sys.stderr)
            continue
        progress.add(name, found)
        if time.monotonic() - shown > 10:
            shown = time.monotonic()
            print(_said(progress, wanted, whole, shown - began, wrong), file=sys.stderr)
    return wrong


def _played(waiting: Sequence[str], processes: int) -> Iterator[tuple[str, Counted | str]]:
    """What has become of each."""
    together = processes * _TASKS
    for start in range(0, len(waiting), together):
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            running = {pool.submit(play, name): name for name in waiting[start : start + together]}
            try:
                yield from ((running[done], done.result()) for done in as_completed(running))
            except BaseException:
                # Who stops the run stops its processes: they end with the portions that they have begun.
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def _said(
    progress: Progress, wanted: Sequence[str], waited: int, seconds: float, wrong: Sequence[str]
) -> str:
    """Where the run stands."""
    done = sum(name in progress.done for name in wanted)
    now = done - (len(wanted) - waited)
    left = (len(wanted) - done) * seconds / max(now, 1) / 60
    cpu = sum(counted.seconds for counted in progress.done.values())
    return (
        f"{done:,} of {len(wanted):,} portions, {cpu:,.0f} CPU-seconds, {left:.0f} minutes left; "
        f"{len(wrong)} failed"
    )


def play(name: str) -> Counted | str:
    """Play one portion in this process: what was counted, or what was wrong."""
    import gc

    from tests.inprocess.session import without_a_jvm
    from tests.simulate.works import told
    from tests.small.gate import played

    # Else a tenth of the time is spent on looking for garbage among what stays.
    gc.set_threshold(20_000, 20, 50)
    walk = dict(_portions(kind(name)))[name]
    try:
        with played() if kind(name) == "log" else without_a_jvm():
            return walk()
    except WrongError as error:
        return str(error)
    except Exception as error:
        # (Not every error can be sent to the process that asks.)
        return f"a run failed as none may: {told(error)}"


@cache
def _portions(of: str) -> list[Portion]:
    """Those of a kind."""
    return list(portions([of]))


if __name__ == "__main__":
    sys.exit(main())
