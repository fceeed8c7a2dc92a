"""The mutation check: `python -m tests.mutants.run [NAME …]`, or `make mutants`.

Each guard is broken in a copy of the repository, and its tests have to fail there; on the whole copy they have to pass.
What was found is remembered in .tidegate/mutants.json as long as no file changes, so a run that was stopped goes on.
Exit code: 0 if every guard is proven, 1 if one is not, or is not found in the code, 2 for wrong arguments.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from typing import Any

from tests.mutants import bounds, commits, rows, steps
from tests.mutants.guard import ROOT, Guard, problems
from tests.mutants.tree import LIMIT, Run, Tree, copied, digest, files

GUARDS: tuple[Guard, ...] = (*rows.GUARDS, *commits.GUARDS, *steps.GUARDS, *bounds.GUARDS)
MEMORY = ROOT / ".tidegate" / "mutants.json"
KILLED = "killed"


@dataclass(frozen=True)
class Result:
    """What became of a broken guard. `outcome`: KILLED, or why the guard is not proven; `by`: the test that failed."""

    name: str
    rule: str
    outcome: str
    by: str
    seconds: float


class Memory:
    """Results for one state of the tree."""

    def __init__(self, state: str) -> None:
        self._state = state
        self._results: dict[str, Any] = {}
        self._green: set[str] = set()
        try:
            stored = json.loads(MEMORY.read_text("utf-8"))
        except (OSError, ValueError):
            return
        if stored.get("state") == state:
            self._results, self._green = stored["results"], set(stored["green"])

    def of(self, guard: Guard) -> Result | None:
        """What is known of a guard, if it is the same guard."""
        found = self._results.get(guard.name)
        return Result(**found["result"]) if found and found["guard"] == repr(guard) else None

    def is_green(self, test: str) -> bool:
        """Whether these tests are known to pass on the whole tree."""
        return test in self._green

    def note(self, guard: Guard, result: Result) -> None:
        self._results[guard.name] = {"guard": repr(guard), "result": asdict(result)}
        self._write()

    def note_green(self, tests: Sequence[str]) -> None:
        self._green.update(tests)
        self._write()

    def _write(self) -> None:
        found = {"state": self._state, "results": self._results, "green": sorted(self._green)}
        hidden = MEMORY.with_suffix(".new")
        hidden.write_text(json.dumps(found, indent=1), "utf-8")
        hidden.replace(MEMORY)


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
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these guards; default: all")
    parser.add_argument("--list", action="store_true", help="print the guards, and break none")
    parser.add_argument(
        "--from", type=int, default=1, dest="first", metavar="N", help="begin with guard number N"
    )
    parser.add_argument("--again", action="store_true", help="also what is known from an earlier run")
    parser.add_argument(
        "--json", action="store_true", help="print the results as JSON, and all else to standard error"
    )
    options = parser.parse_args(arguments)
    known = {guard.name: guard for guard in GUARDS}
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"there is no guard {', '.join(unknown)}; --list prints all")
    chosen = [
        (number, guard)
        for number, guard in enumerate(GUARDS, 1)
        if number >= options.first and (not options.names or guard.name in options.names)
    ]
    if options.list:
        for number, guard in chosen:
            print(f"{number:3}  {guard.name:26} {guard.rule:4} {guard.says}  ({guard.path})")
        return 0
    guards = [guard for _, guard in chosen]
    if wrong := [problem for guard in guards for problem in problems(guard)]:
        print("\n".join(wrong), file=sys.stderr)
        return 1
    # A copy is removed then, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with redirect_stdout(sys.stderr if options.json else sys.stdout):
        try:
            results = checked(guards, options.again)
        except KeyboardInterrupt:
            print("\nstopped; the next run goes on from here", file=sys.stderr)
            return 130
        missing = [one for one in results if one.outcome != KILLED]
        print(f"\n{table(results)}\n")
        print(f"{len(results) - len(missing)} of {len(results)} broken guards fail a test")
    if options.json:
        print(json.dumps([asdict(one) for one in results], indent=1))
    return 1 if missing else 0


def checked(guards: Sequence[Guard], again: bool) -> list[Result]:
    """The results of all guards, in their order; those that are not known yet are found out."""
    names = files()
    memory = Memory(digest(names))
    done = {} if again else {g.name: found for g in guards if (found := memory.of(g)) is not None}
    left = [guard for guard in guards if guard.name not in done]
    if done:
        print(f"{len(done)} of {len(guards)} guards are known from an earlier run on the same files")
    if left:
        with copied(names) as tree:
            red = red_on_the_whole(tree, left, memory)
            for number, guard in enumerate(left, 1):
                print(f"{number:3}/{len(left)}  {guard.name} ({guard.rule}): ", end="", flush=True)
                bad = [red[test] for test in guard.tests if test in red]
                if bad:
                    result = Result(
                        guard.name, guard.rule, f"its tests fail by themselves: {bad[0]}", "", 0.0
                    )
                else:
                    result = check(tree, guard)
                    memory.note(guard, result)
                done[guard.name] = result
                print(f"{result.outcome} {result.by} ({result.seconds} s)", flush=True)
    return [done[guard.name] for guard in guards]


if __name__ == "__main__":
    sys.exit(main())
