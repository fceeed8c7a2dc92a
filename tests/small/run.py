"""`make worlds`: every small world, of the oracles and of the engine; goes on where it was stopped.

python -m tests.small.run                    # everything
python -m tests.small.run log windows        # of these kinds
python -m tests.small.run --list             # what there is, and what was played
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path

from tests.mutants.tree import digest, files
from tests.small import agree, groups, tables
from tests.small.gate import Setting, played
from tests.small.histories import TIMES, History, histories
from tests.small.log_walk import LogWalk
from tests.small.walk import Counted, WrongError

#: Where a run takes down what it has done, and what that depends on.
PROGRESS = Path(".tidegate/worlds/progress.json")
_PLAYED = (
    "platform/",
    *(f"tests/{one}" for one in ("small/", "simulate/", "inprocess/", "oracles/", "support/worlds")),
)
KINDS = ("oracles", "log", "windows", "amend", "tables")
#: Histories that the oracles answer at once.
_AT_ONCE = 10_000
_VIEWS = ("tumbling", "hopping", "visits", "sorted")

Portion = tuple[str, Callable[[], Counted]]


def oracles_agree(worlds: list[agree.World], as_tables: bool) -> Counted:
    """Ask both oracles about these worlds."""
    started = time.process_time()
    if as_tables:
        one, other = agree.tables_by_sql(worlds), agree.tables_by_steps(worlds)
    else:
        one, other = agree.answers_by_sql(worlds), agree.answers_by_steps(worlds)
    if found := agree.differences(one, other, worlds):
        raise WrongError("\n".join(found))
    orders = sum(world.history.arrivals for world in worlds)
    return Counted(orders, len(worlds), len(worlds), round(time.process_time() - started, 1))


def with_deletes(history: History) -> Iterator[agree.World]:
    """The history of one key and of two, where nothing, the last row, and the first row of each partition deletes."""
    places = [(partition, offset) for _, partition, offset, _ in history.rows()]
    for keys in (1, 2):
        for deletes in ([], places[-1:], [place for place in places if place[1] == 0]):
            yield agree.World(history, deletes=frozenset(deletes), keys=keys)


def portions() -> Iterator[Portion]:
    """All that there is to play, what is quick first."""
    yield from _of_oracles()
    yield from _of_logs()
    yield from _of_groups()


def _of_oracles() -> Iterator[Portion]:
    for strategy in agree.STRATEGIES:
        for number, chunk in enumerate(_chunks(histories(TIMES, 4))):
            worlds = partial(_worlds, chunk, strategy)
            yield f"oracles {strategy} {number}", partial(_asked, worlds, False)
    for number, chunk in enumerate(_chunks(histories((0, 1, 2), 4))):
        yield f"oracles tables {number}", partial(_asked, partial(_deleting, chunk), True)


def _worlds(chunk: list[History], strategy: str) -> list[agree.World]:
    return [agree.World(history, strategy) for history in chunk]


def _deleting(chunk: list[History]) -> list[agree.World]:
    return [world for history in chunk for world in with_deletes(history)]


def _asked(worlds: Callable[[], list[agree.World]], as_tables: bool) -> Counted:
    return oracles_agree(worlds(), as_tables)


def _chunks(given: Iterator[History]) -> Iterator[list[History]]:
    while chunk := list(islice(given, _AT_ONCE)):
        yield chunk


def _of_logs() -> Iterator[Portion]:
    settings = [Setting(strategy) for strategy in agree.STRATEGIES] + [Setting(expires=True)]
    for setting in settings:
        name = "table" if setting.expires else setting.strategy
        for times, most, late in (
            ((0, 1, 2), 2, True),
            (TIMES, 2, True),
            ((0, 1, 2), 3, False),
            (TIMES, 3, False),
        ):
            walk = LogWalk(setting, times, most, late)
            yield f"log {name} {most} rows of {len(times)} times{', late commits' if late else ''}", walk.walk
    for most, late in ((4, False), (3, True)):
        walk = LogWalk(Setting(), (0, 2), most, late)
        yield f"log delayed {most} rows of 2 times{', late commits' if late else ''}", walk.walk


def _of_groups() -> Iterator[Portion]:
    """Whole runs, with each crash: of two rows, then of three and of four."""
    for most, times in ((2, groups.SECONDS), (3, groups.SECONDS), (4, (0, 15, 35))):
        name = f"{most} rows"
        for number, group in enumerate(groups.groups(histories(times, most), most)):
            yield f"windows {name} {number}", partial(_timed, groups.walked, group, _VIEWS)
            yield (
                f"amend {name} {number}",
                partial(_timed, groups.walked, group, ("tumbling", "hopping"), True),
            )
        for number, one in enumerate(tables.groups(histories(tables.SECONDS, most), most)):
            yield f"tables {name} {number}", partial(_timed, tables.walked, one)


def _timed(walk: Callable[..., Counted], *given: object) -> Counted:
    started = time.process_time()
    found = walk(*given)
    found.seconds = round(time.process_time() - started, 1)
    return found


class Progress:
    """What was played of this tree, in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version = digest([name for name in files() if name.startswith(_PLAYED)])
        self.done: dict[str, Counted] = {}
        if path.is_file():
            known = json.loads(path.read_text("utf-8"))
            if known["version"] == self._version:
                self.done = {name: Counted(**counted) for name, counted in known["done"].items()}

    def add(self, name: str, counted: Counted) -> None:
        """This has been played, and was right."""
        self.done[name] = counted
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_suffix(".new")
        done = {name: asdict(counted) for name, counted in self.done.items()}
        new.write_text(json.dumps({"version": self._version, "done": done}), "utf-8")
        os.replace(new, self._path)

    def of(self, kind: str) -> Counted:
        """All of a kind."""
        total = Counted()
        for name, counted in self.done.items():
            if name.partition(" ")[0] == kind:
                total.add(counted)
        return total


def main(given: list[str] | None = None) -> int:
    """0: all that was asked for is right; 1: something is not."""
    parser = argparse.ArgumentParser(prog="python -m tests.small.run", description="Every small world")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"only these: {', '.join(KINDS)}")
    parser.add_argument("--named", default="", help="only portions whose names have this")
    parser.add_argument("--progress", type=Path, default=PROGRESS, help=f"what was done ({PROGRESS})")
    parser.add_argument("--afresh", action="store_true", help="forget what was done before")
    parser.add_argument("--list", action="store_true", help="print the portions, and which were played")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    asked = parser.parse_args(given)
    if unknown := set(asked.kinds) - set(KINDS):
        parser.error(f"no such kind: {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    if asked.afresh:
        asked.progress.unlink(missing_ok=True)
    progress = Progress(asked.progress)
    wanted = [
        (name, play)
        for name, play in portions()
        if name.partition(" ")[0] in (asked.kinds or KINDS) and asked.named in name
    ]
    if asked.list:
        for name, _ in wanted:
            print(name + (": played" if name in progress.done else ""))
        return 0
    wrong = _play(wanted, progress)
    figures = {kind: progress.of(kind) for kind in KINDS}
    if asked.json:
        left = sum(name not in progress.done for name, _ in wanted)
        print(json.dumps({"wrong": wrong, "left": left} | {k: asdict(v) for k, v in figures.items()}))
    else:
        for kind, one in figures.items():
            print(
                f"{kind:8} {one.cases:>16,} cases, {one.worlds:>10,} distinct states, {one.moves:>10,} played, "
                f"{one.seconds:>8,.0f} CPU-seconds"
            )
        print("\n".join(wrong) if wrong else "every promise was kept")
    return 1 if wrong else 0


def _play(wanted: list[Portion], progress: Progress) -> list[str]:
    from tests.inprocess.session import without_a_jvm

    wrong = []
    for name, play in wanted:
        if name in progress.done:
            continue
        try:
            with played() if name.startswith("log") else without_a_jvm():
                counted = play()
        except WrongError as error:
            wrong.append(f"{name}: {error}")
            print(wrong[-1], file=sys.stderr)
            continue
        progress.add(name, counted)
        print(f"{name}: {counted.cases:,} cases, {counted.seconds:,.1f} CPU-seconds", file=sys.stderr)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
