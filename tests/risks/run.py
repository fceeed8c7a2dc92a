"""The risks of one driver for all groups, at the sizes that the design was to stand; goes on where it was stopped.

python -m tests.risks.run                                 # all rows, at the sizes that were asked for
python -m tests.risks.run heap commits --size small       # of these rows, in a minute
python -m tests.risks.run heap --minutes 5                # for so long; the next call continues it
python -m tests.risks.run --list                          # the rows, and what was played of them
python -m tests.risks.run --write-docs                    # what was played, into docs/decisions/one-driver.md
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.risks.cases import PLAYED, ROOT, SIZES, Result
from tests.soak.page import write_docs

#: Where a run takes down what it has done, and keeps what it goes on with.
FOLDER = Path(".tidegate/risks")
PAGE = ROOT / "docs" / "decisions" / "one-driver.md"
BEGIN, END = "<!-- risks: begin -->", "<!-- risks: end -->"
#: A row that nobody limits.
_DAY = 24 * 60.0
#: What the page says of a row that was played nowhere else.
_NOTHING = "only that of the tests"


@dataclass(frozen=True)
class Risk:
    """A row of the table. `tests`: what plays it in `make test` and `make property`, as paths."""

    name: str
    what: str
    tests: tuple[str, ...]


RISKS = (
    Risk(
        "names",
        "temporary views with fixed names, settings of a session, py4j's threads",
        ("tests/session/test_groups_side_by_side.py",),
    ),
    Risk(
        "loops",
        "two tasks that hang fill two cores",
        ("tests/risks/test_shared_workers.py", "tests/session/test_driver_endings.py"),
    ),
    Risk("heap", "one heap: metaspace, cache of compiled code, plans", ("tests/risks/test_risks.py",)),
    Risk("calls", "the driver's GIL and py4j", ("tests/benchmarks/test_profile.py",)),
    Risk(
        "workers",
        "Python workers that groups share",
        ("tests/risks/test_shared_workers.py", "tests/tasks/test_memory.py"),
    ),
    Risk(
        "commits",
        "commits side by side",
        (
            "tests/risks/test_risks.py",
            "tests/iceberg/test_sqlite_catalog.py",
            "tests/iceberg/test_catalogs.py",
        ),
    ),
    Risk("topics", "Kafka read in tasks", ("tests/runtime/test_kafka_in_tasks.py",)),
)


class Played:
    """What was played, in a file: by size, row and part."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder / "progress.json"
        self.done: dict[str, dict[str, Any]] = {}
        if self._file.is_file():
            self.done = json.loads(self._file.read_text("utf-8"))

    def of(self, size: str, row: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """The parts of a row that were played, with what was found."""
        for key, found in self.done.items():
            if key.startswith(f"{size}/{row}/"):
                yield key.rpartition("/")[2], found

    def add(self, size: str, row: str, part: str, found: Mapping[str, Any]) -> None:
        self.done[f"{size}/{row}/{part}"] = dict(found)
        self.folder.mkdir(parents=True, exist_ok=True)
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(self.done, indent=1), "utf-8")
        os.replace(new, self._file)


def parts(row: str, size: str) -> Sequence[str]:
    """What of a row is played in processes of their own."""
    return SIZES[size].places if row == "commits" else ("all",)


def main(given: list[str] | None = None) -> int:
    """0: all that was asked for was played, and is right; 1: something is wrong; 3: something is left."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.risks.run",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    rows = [risk.name for risk in RISKS]
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"only these: {', '.join(rows)}")
    parser.add_argument("--size", choices=sorted(SIZES), default="full", help="of what is played (full)")
    parser.add_argument("--minutes", type=float, default=_DAY, help="of each row; it can be continued")
    parser.add_argument("--part", help="only this one, of commits: a catalog")
    parser.add_argument("--folder", type=Path, default=FOLDER, help=f"what was done ({FOLDER})")
    parser.add_argument("--list", action="store_true", help="print the rows, and what was played")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")
    parser.add_argument("--write-docs", action="store_true", help=f"put what was played into {PAGE.name}")
    asked = parser.parse_args(given)
    if unknown := set(asked.rows) - set(rows):
        parser.error(f"no such row: {', '.join(sorted(unknown))}; there are {', '.join(rows)}")
    played = Played(asked.folder)
    wanted = [risk for risk in RISKS if risk.name in (asked.rows or rows)]
    if asked.write_docs:
        write_docs(PAGE, table(played, PAGE.read_text("utf-8")), BEGIN, END)
        return 0
    if asked.list:
        for risk in wanted:
            texts = [found["said"] for _, found in played.of(asked.size, risk.name)]
            print(f"{risk.name}: {risk.what}\n  " + ("\n  ".join(texts) or "was not played"))
        return 0
    found: list[Result] = []
    for risk in wanted:
        for part in parts(risk.name, asked.size):
            if asked.part in (None, part) and not _is_done(played, asked.size, risk.name, part):
                found.append(_play(played, asked.size, risk.name, part, asked.minutes))
    if asked.json:
        print(json.dumps([asdict(one) for one in found]))
    else:
        print(
            "\n".join(
                line for one in found for line in (one.said, *(f"WRONG: {text}" for text in one.failures))
            )
        )
    return 1 if any(one.failures for one in found) else 3 if any(one.left for one in found) else 0


def _is_done(played: Played, size: str, row: str, part: str) -> bool:
    known = dict(played.of(size, row)).get(part)
    return known is not None and not known["left"] and not known["failures"]


def _play(played: Played, size: str, row: str, part: str, minutes: float) -> Result:
    """In a process of its own."""
    assert row in PLAYED
    folder = (played.folder / size / f"{row}-{part}".replace(" ", "-")).resolve()
    words = [row, part, str(folder), size, str(minutes)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.risks.cases", *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return Result(
            f"{row}, {part}: was not played to its end",
            [f"{row}, {part}: the process ended with {done.returncode}"],
        )
    found = Result(**json.loads(lines[-1]))
    played.add(size, row, part, asdict(found))
    return found


def table(played: Played, page: str) -> str:
    """The part of the page that a run writes: of each row the largest size that was played, here or before."""
    lines = ["| risk | tests | largest run |", "|---|---|---|"]
    for risk in RISKS:
        begin = f"| {risk.what} (`{risk.name}`) | "
        full, small = (
            [_result(one, size) for _, one in played.of(size, risk.name)] for size in ("full", "small")
        )
        before = [
            line.split(" | ", 2)[2].removesuffix(" |") for line in page.splitlines() if line.startswith(begin)
        ]
        known = [text for text in before if not text.endswith(("(small)", _NOTHING))]
        tests = ", ".join(f"`{path}`" for path in risk.tests)
        lines.append(f"{begin}{tests} | {'; '.join(full or known or small) or _NOTHING} |")
    return "\n".join(lines)


def _result(found: Mapping[str, Any], size: str) -> str:
    wrong = [f"**wrong**: {text}" for text in found["failures"]]
    return "; ".join([found["said"], *wrong]) + ("" if size == "full" else " (small)")


if __name__ == "__main__":
    sys.exit(main())
