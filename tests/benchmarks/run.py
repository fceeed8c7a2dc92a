"""`make bench`: what tidegate costs, beside what people would write by hand, and beside its peers, in interleaved runs.

The number is CPU seconds per million rows of the whole process tree; on shared machines read the ratios. Every result
of tidegate is compared with an oracle, row by row: a fast wrong answer fails. Each suite leaves
docs/benchmarks/<suite>.json; `python -m tests.benchmarks.page` makes docs/benchmarks.md of them.
"""

from __future__ import annotations

import argparse
import logging
import shlex
import signal
import sys
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    # Not this folder: its modules are `tests.benchmarks.…`.
    sys.path[0] = str(ROOT)

from tests.benchmarks import page  # noqa: E402
from tests.benchmarks.bench import Bench, Options  # noqa: E402
from tests.benchmarks.machine import facts  # noqa: E402
from tests.benchmarks.results import Result  # noqa: E402
from tests.benchmarks.suites import SUITES  # noqa: E402


def parse(arguments: list[str] | None = None) -> tuple[list[str], Options]:
    """The suites, and how they are to be run."""
    d = Options()
    parser = argparse.ArgumentParser(
        prog="make bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)}; default: all")
    parser.add_argument("--scale", type=float, default=d.scale, help="multiplies the rows of every suite")
    parser.add_argument("--repeats", type=int, help="of every engine (default: the suite's own)")
    parser.add_argument("--engines", default="", help="only these, with commas between them")
    parser.add_argument("--points", default="", help="places of a curve (rates, views, …), with commas")
    parser.add_argument("--minutes", type=float, default=d.minutes, help="of each rate, for latency")
    parser.add_argument(
        "--timeout", type=float, default=d.timeout_s, metavar="SECONDS", help="of one process"
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="folder for the results (default: docs/benchmarks; another where --scale is not 1)",
    )
    parser.add_argument(
        "--work", type=Path, default=d.work, help="folder for data, runs and the peers' environments"
    )
    parser.add_argument(
        "--cases", default="", help="of the suites many and change, only these, with semicolons"
    )
    parser.add_argument("--warm", type=float, default=d.warm_s, help="seconds before the suite many measures")
    parser.add_argument("--measure", type=float, help="seconds that it measures a case (default: minutes)")
    parser.add_argument("--keep", action="store_true", help="keep the data for the next time")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.suites if name not in SUITES]
    if unknown:
        parser.error(f"no suite {', '.join(unknown)}; there are {', '.join(SUITES)}")
    out = given.out or (d.out if (given.scale, given.measure) == (1.0, None) else given.work / "results")
    options = Options(
        given.scale,
        given.repeats,
        tuple(name.strip() for name in given.engines.split(",") if name.strip()),
        tuple(float(point) for point in given.points.split(",") if point),
        given.minutes,
        given.timeout,
        out.resolve(),
        given.work.resolve(),
        given.keep,
        tuple(name.strip() for name in given.cases.split(";") if name.strip()),
        given.warm,
        given.measure,
    )
    return given.suites or list(SUITES), options


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def main() -> int:
    names, options = parse()
    # By way of every `finally`: nothing is left running.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    failed: list[str] = []
    bench = Bench(options, say)
    for name in names:
        say(f"suite {name}: {SUITES[name].title} (about {SUITES[name].minutes} minutes at full scale)")
        began = time.monotonic()
        known = facts(ROOT)
        try:
            result: Result = SUITES[name].measure(bench)
        except Exception as error:
            # The other suites go on; what is known of this one stays as it was.
            traceback.print_exc()
            failed.append(f"{name}: {error}")
            continue
        finally:
            bench.clean()
        result.facts = known | {
            "minutes": round((time.monotonic() - began) / 60, 1),
            "command": f"make bench SUITES={name}" + _arguments(),
        }
        say(f"suite {name}: {result.write(options.out)}")
        for engine, why in result.unavailable.items():
            say(f"suite {name}: without {engine}: {why.splitlines()[0]}")
        failed += [f"{name}: {failure}" for failure in result.failures]
    if options.out == Options.out:
        page.write()
    for failure in failed:
        say(f"FAILED: {failure}")
    return 1 if failed else 0


def _arguments() -> str:
    """What was asked for beyond the suites, but for the places on this machine."""
    given, skip = [], False
    for word in sys.argv[1:]:
        if skip or word in SUITES or word == "--keep" or word.startswith(("--out", "--work")):
            skip = word in ("--out", "--work")
            continue
        given.append(word)
    return f' ARGS="{shlex.join(given)}"' if given else ""


if __name__ == "__main__":
    sys.exit(main())
