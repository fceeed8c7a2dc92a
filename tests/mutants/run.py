"""The mutation check: `python -m tests.mutants.run [NAME …]`, or `make mutants`.

Each guard is broken in a copy of the repository, and its tests have to fail there; on the whole copy they have to pass.
Then each planted fault is put into the copy, and a seed of the simulator has to fail that passes on the whole copy.
What was found is remembered in .tidegate/mutants.json as long as no file changes that it depends on, so a run that was
stopped goes on.
Exit code: 0 if all are proven, 1 if one is not, or is not found in the code, 2 for wrong arguments.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from queue import SimpleQueue
from threading import RLock
from typing import Any

from tests.mutants import (
    planted,
    planted_changes,
    planted_erasures,
    planted_queries,
    planted_results,
    planted_topics,
)
from tests.mutants.guard import ROOT, Guard, Place, Planted, problems
from tests.mutants.guards import bounds, changes, commits, copies, new_columns, rota, rows, steps, warm
from tests.mutants.hunt import MOST, hunt
from tests.mutants.page import PAGE, seeds_on, write_planted
from tests.mutants.tree import LIMIT, Run, Tree, copied, digest, files
from tests.simulate.run import PLAYED

GUARDS: tuple[Guard, ...] = (
    *rows.GUARDS,
    *commits.GUARDS,
    *steps.GUARDS,
    *rota.GUARDS,
    *bounds.GUARDS,
    *changes.GUARDS,
    *new_columns.GUARDS,
    *copies.GUARDS,
    *warm.GUARDS,
)
PLANTED: tuple[Planted, ...] = (
    *planted.PLANTED,
    *planted_topics.PLANTED,
    *planted_results.PLANTED,
    *planted_queries.PLANTED,
    *planted_changes.PLANTED,
    *planted_erasures.PLANTED,
)
ALL: tuple[Place, ...] = (*GUARDS, *PLANTED)
MEMORY = ROOT / ".tidegate" / "mutants.json"
KILLED, NOT_FOUND = "killed", "not found"


@dataclass(frozen=True)
class Result:
    """What became of what was broken. `outcome`: KILLED, or why it is not proven; `by`: the test that failed, or the
    promise that was. Of a planted fault: the `seed` that found it, and how many `seeds` were played."""

    name: str
    rule: str
    outcome: str
    by: str
    seconds: float
    seed: int | None = None
    seeds: int = 0


class Memory:
    """Results, each for the state of the files that it depends on. `states`: of those that tests depend on, and of
    those that the simulator's histories do."""

    def __init__(self, *states: str) -> None:
        self._tests, self._histories = states[0], states[-1]
        self._results: dict[str, Any] = {}
        self._green: set[str] = set()
        self._lock = RLock()
        try:
            stored = json.loads(MEMORY.read_text("utf-8"))
        except (OSError, ValueError):
            return
        known = {name: one for name, one in stored["results"].items() if one.get("state") in states}
        self._results = known
        self._green = {one for one in stored["green"] if one.partition(" ")[0] in states}

    def of(self, place: Place) -> Result | None:
        """What is known of a place, if it is the same and is broken in the same way."""
        found = self._results.get(place.name)
        same = found and found["guard"] == repr(place) and found["state"] == self._state(place)
        return Result(**found["result"]) if found and same else None

    def _state(self, place: Place) -> str:
        return self._histories if isinstance(place, Planted) else self._tests

    def is_green(self, test: str | int) -> bool:
        """Whether these tests, or this seed, are known to pass on the whole tree."""
        return self._named(test) in self._green

    def _named(self, test: str | int) -> str:
        return f"{self._tests} {test}" if isinstance(test, str) else f"{self._histories} seed {test}"

    def note(self, place: Place, result: Result) -> None:
        with self._lock:
            found = {"guard": repr(place), "state": self._state(place), "result": asdict(result)}
            self._results[place.name] = found
            self._write()

    def note_green(self, tests: Sequence[str | int]) -> None:
        with self._lock:
            self._green.update(map(self._named, tests))
            self._write()

    def _write(self) -> None:
        found = {"results": self._results, "green": sorted(self._green)}
        hidden = MEMORY.with_suffix(".new")
        hidden.write_text(json.dumps(found, indent=1), "utf-8")
        hidden.replace(MEMORY)


def memory_of(names: Sequence[str]) -> Memory:
    """What is known of these files."""
    return Memory(digest(names), digest([name for name in names if name.startswith(PLAYED)]))


def red_on_the_whole(tree: Tree, guards: Sequence[Guard], memory: Memory) -> dict[str, str]:
    """Of tests that fail although nothing is broken, the first failure: they prove nothing."""
    tests = [t for t in dict.fromkeys(t for g in guards for t in g.tests) if not memory.is_green(t)]
    if not tests:
        return {}
    print(f"{len(tests)} selections of tests have to pass while no guard is broken …", flush=True)
    run = tree.run(tests, 10 * LIMIT, until_red=False)
    found, green = {}, []
    for test in tests:
        failed = next((name for name in run.failed if _is_of(name, test)), None)
        if failed is None and any(_is_of(name, test) for name in run.passed):
            green.append(test)
        else:
            found[test] = failed or f"{test} did not run:\n{run.end}"
    memory.note_green(green)
    return found


def _is_of(name: str, test: str) -> bool:
    """Whether a test that ran, with its parameters, is one of those that `test` selects."""
    return name == test or name.startswith((f"{test}::", f"{test}["))


def check(tree: Tree, guard: Guard) -> Result:
    """Break a guard, and see whether its tests notice."""
    started = time.monotonic()
    with tree.broken(guard.path, guard.break_in((tree.root / guard.path).read_text("utf-8"))):
        run = tree.run(guard.tests, LIMIT)
    seconds = round(time.monotonic() - started, 1)
    return Result(guard.name, guard.rule, verdict(run), run.failed[0] if run.is_red else "", seconds)


def look_for(tree: Tree, fault: Planted, memory: Memory, most: int = MOST) -> Result:
    """Plant a fault, and see which of so many seeds finds it."""
    started = time.monotonic()
    with tree.broken(fault.path, fault.break_in((tree.root / fault.path).read_text("utf-8"))):
        # What has found it before mostly finds it again; which is the first seed that does, nobody asks.
        tried = seeds_on(PAGE).get(fault.name)
        found = hunt(tree, fault.first if tried is None else tried, most if tried is None else 1)
        if tried is not None and found.seed is None:
            found = hunt(tree, fault.first, most)
    outcome = KILLED if found.seed is not None else NOT_FOUND
    if found.problem:
        outcome = f"its seeds did not play:\n{found.problem}"
    elif found.seed is not None and (red := _red_seed(tree, found.seed, memory)):
        outcome = f"its seed fails by itself: {red}"
    seconds = round(time.monotonic() - started, 1)
    return Result(fault.name, fault.rule, outcome, found.wrong, seconds, found.seed, found.seeds)


def _red_seed(tree: Tree, seed: int, memory: Memory) -> str:
    """What is wrong with a seed although nothing is broken; nothing, if all is well."""
    if memory.is_green(seed):
        return ""
    found = hunt(tree, seed, 1)
    if found.seed is None and not found.problem:
        memory.note_green([seed])
    return found.wrong or found.problem


def verdict(run: Run) -> str:
    """KILLED, or why not."""
    if run.is_red:
        return KILLED
    if run.code == 0:
        return "survived"
    return "its tests took too long" if run.code is None else f"its tests did not run:\n{run.end}"


def table(results: Sequence[Result]) -> str:
    """For people and pages."""
    lines = ["| guard | rule | killed by | seconds |", "|---|---|---|---|"]
    for one in results:
        by = f"`{one.by}`" if one.outcome == KILLED else f"**{one.outcome.splitlines()[0]}**"
        lines.append(f"| {one.name} | {one.rule} | {by} | {one.seconds} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description=(__doc__ or "").split("\n\n")[1])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="only these guards and planted faults; default: all"
    )
    parser.add_argument("--list", action="store_true", help="print the guards and faults, and break none")
    parser.add_argument("--planted", action="store_true", help="only what the simulator has to find")
    parser.add_argument("--from", type=int, default=1, dest="first", metavar="N", help="begin with number N")
    parser.add_argument(
        "--most", type=int, default=MOST, metavar="N", help=f"seeds for a planted fault ({MOST})"
    )
    parser.add_argument("--again", action="store_true", help="also what is known from an earlier run")
    parser.add_argument(
        "--write-docs", action="store_true", help=f"put what is known of planted faults into docs/{PAGE.name}"
    )
    parser.add_argument(
        "--json", action="store_true", help="print the results as JSON, and all else to standard error"
    )
    options = parser.parse_args(arguments)
    known = {one.name: one for one in ALL}
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"there is no guard and no planted fault {', '.join(unknown)}; --list prints all")
    chosen = [
        (number, one)
        for number, one in enumerate(ALL, 1)
        if number >= options.first
        and (not options.names or one.name in options.names)
        and (not options.planted or isinstance(one, Planted))
    ]
    if options.list:
        for number, one in chosen:
            print(f"{number:3}  {one.name:26} {one.rule:4} {one.says}  ({one.path})")
        return 0
    places = [one for _, one in chosen]
    if wrong := [problem for one in places for problem in problems(one)]:
        print("\n".join(wrong), file=sys.stderr)
        return 1
    if options.write_docs:
        return _documented()
    # A copy is removed then, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with redirect_stdout(sys.stderr if options.json else sys.stdout):
        try:
            results = checked(places, options.again, options.most)
        except KeyboardInterrupt:
            print("\nstopped; the next run continues from here", file=sys.stderr)
            return 130
        missing = [one for one in results if one.outcome != KILLED]
        print(f"\n{table(results)}\n")
        print(f"{len(results) - len(missing)} of {len(results)} are noticed when they are broken")
    if options.json:
        print(json.dumps([asdict(one) for one in results], indent=1))
    return 1 if missing else 0


def checked(places: Sequence[Place], again: bool, most: int = MOST) -> list[Result]:
    """The results of all places, in their order; those that are not known yet are found out. What is planted has a
    second copy, too: two are looked for at the same time."""
    names = files()
    memory = memory_of(names)
    done = {} if again else {one.name: found for one in places if (found := memory.of(one)) is not None}
    left = [one for one in places if one.name not in done]
    if done:
        print(f"{len(done)} of {len(places)} are known from an earlier run on the same files")
    if left:
        with copied(names) as tree:
            red = red_on_the_whole(tree, [one for one in left if isinstance(one, Guard)], memory)
            for one in left:
                if isinstance(one, Guard):
                    done[one.name] = _said(one, _proven(tree, one, red, memory))
            done |= _found(tree, [one for one in left if isinstance(one, Planted)], memory, most)
    return [done[one.name] for one in places]


def _said(place: Place, result: Result) -> Result:
    after = "" if result.seed is None else f" by seed {result.seed}, of {result.seeds}:"
    print(
        f"{place.name} ({place.rule}): {result.outcome}{after} {result.by} ({result.seconds} s)", flush=True
    )
    return result


def _found(tree: Tree, faults: Sequence[Planted], memory: Memory, most: int) -> dict[str, Result]:
    """By name what became of planted faults. What was found is taken down, and so is what all seeds did not find."""
    if not faults:
        return {}
    with tree.twin() as other, ThreadPoolExecutor(2) as pool:
        trees: SimpleQueue[Tree] = SimpleQueue()
        for one in (tree, other):
            trees.put(one)

        def look(fault: Planted) -> Result:
            free = trees.get()
            try:
                result = look_for(free, fault, memory, most)
            finally:
                trees.put(free)
            if result.outcome == KILLED or (result.outcome == NOT_FOUND and most >= MOST):
                memory.note(fault, result)
            return _said(fault, result)

        try:
            return {fault.name: result for fault, result in zip(faults, pool.map(look, faults), strict=True)}
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for one in (tree, other):
                one.stop()
            raise


def _proven(tree: Tree, place: Guard, red: dict[str, str], memory: Memory) -> Result:
    """What becomes of a guard that is broken; it is taken down, unless its tests fail by themselves."""
    bad = [red[test] for test in place.tests if test in red]
    if bad:
        return Result(place.name, place.rule, f"its tests fail by themselves: {bad[0]}", "", 0.0)
    result = check(tree, place)
    memory.note(place, result)
    return result


def _documented() -> int:
    """Write the table of planted faults. 1 if a run has yet to find some of them."""
    memory = memory_of(files())
    known = [(one, memory.of(one)) for one in PLANTED]
    found = [(one, result if result and result.outcome == KILLED else None) for one, result in known]
    write_planted(PAGE, found)
    if missing := [one.name for one, result in found if result is None]:
        print(f"not found, or not looked for on these files: {', '.join(missing)}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
