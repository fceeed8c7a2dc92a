"""docs/benchmarks.md and its plots, and the table of commits in docs/performance.md, from docs/benchmarks/*.json:
`python -m tests.benchmarks.page`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.benchmarks.bench import DOCS
from tests.benchmarks.pictures import curve
from tests.benchmarks.suites import SUITES
from tests.benchmarks.suites.suite import Suite

#: Measured and generated documents, by suite.
Documents = Mapping[str, dict[str, Any]]

LABELS = {
    "cpu_s_per_mrow": "CPU-s / M rows",
    "work_cpu_s_per_mrow": "work only",
    "cpu_s": "CPU-s",
    "work_cpu_s": "CPU-s of work",
    "work_cpu_s_per_view": "per view",
    "wall_s": "wall s",
    "command_cpu_s": "CPU of the command, s",
    "work_wall_s": "wall s of work",
    "peak_rss_mb": "peak RSS, MB",
    "p50_s": "p50, s",
    "p99_s": "p99, s",
    "max_s": "longest, s",
    "times_before": "× before",
    "took_s": "took, s",
    "cores_used": "cores used",
    "cores": "cores",
    "pss_mb": "largest PSS, MB",
    "commit_cpu_ms": "CPU ms",
    "driver_cpu_ms": "driver",
    "jvm_cpu_ms": "JVM",
    "started_cpu_ms": "`chmod`",
    "server_cpu_ms": "server",
    "round_trips": "requests to the catalog",
    "store_requests": "requests to the store",
    "written_kb": "KB written",
    "commit_wall_ms": "wall ms",
}
#: In docs/performance.md.
_CATALOGS = {
    "folder": "folder",
    "sqlite": "SQLite",
    "postgres": "PostgreSQL",
    "rest": "REST",
    "rest on S3": "REST, tables on S3",
}
_CPU = ("commit_cpu_ms", "driver_cpu_ms", "jvm_cpu_ms", "started_cpu_ms", "server_cpu_ms")
_ASKED = ("round_trips", "store_requests", "written_kb")
_COMMITS = (
    "| catalog | snapshots | CPU | driver | JVM | `chmod` | server | requests to the catalog | requests to S3 "
    "| KB written | CPU, of that with 20 |\n"
)
#: Engines that ratios are of.
BASES = ("native", "native+copy", "flink")

_INTRODUCTION = """\
# Benchmarks

These benchmarks compare the cost of tidegate with native Spark code and with other systems, on the same rows, in
alternating runs. `python -m tests.benchmarks.page` writes this page from [the results](benchmarks).

**Numbers.** The main number is CPU seconds per million rows, of the whole process tree: driver, JVM, Python
workers. "CPU-s / M rows" includes the start of the engine; "work only" begins when the engine has started, and ends
when its result is stored. Ratios compare medians of "work only"; they are similar on different machines, absolute
numbers are not. Peak RSS is the largest sum over the process tree; a JVM uses the memory that its heap allows.

**Compared systems.** tidegate runs a project with SQL and default settings. It judges every
row, keeps all rows in its log with the watermarks, and commits windows once. Native Spark Structured Streaming
keeps no rows; "native+copy" runs a second query that stores the raw rows as Parquet, without lateness, audit or
replay. Flink SQL {flink} runs in one local cluster with reused objects, state on the heap, and no checkpoints. DuckDB
{duckdb} reads the complete files as one batch, either with the row by row late rule as a window function, or without
a late rule: it shows the limit of the machine, and is not a streaming system. Of these systems only native+copy
keeps the rows. The very first run of tidegate on a machine writes [an archive of the JVM's
classes](performance.md#what-was-done) for all later runs; this run is not measured.

**Checks.** Every result of tidegate is compared with an oracle in numpy, row for row, including late rows;
a wrong result fails the suite, and is reported here. The results of the other systems are compared, too, in closed
windows: "differs" counts result rows that are missing, extra or different, of all expected rows.

**Repetition.** `make bench` runs all suites (hours); `make bench SUITES="files hop"` runs some suites, and
`ARGS="--scale 0.1 --repeats 1"` makes them smaller. The other systems are installed into `.tidegate/bench`, and Kafka
is a real broker on loopback; only Linux, Python and Java are required. Suites are measured one by one, at the dates
given, so compare only numbers of the same suite.
"""


def read(folder: Path = DOCS / "benchmarks") -> dict[str, dict[str, Any]]:
    """The results that there are, by suite."""
    return {
        name: json.loads((folder / f"{name}.json").read_text())
        for name in SUITES
        if (folder / f"{name}.json").is_file()
    }


def render(documents: Documents) -> str:
    """The page."""
    versions = next((d["versions"] for d in documents.values()), {})
    known = {name: versions.get(name, "") for name in ("flink", "duckdb")}
    parts = [_INTRODUCTION.format(**known), _overview(documents)]
    parts += [_section(suite, documents[name]) for name, suite in SUITES.items() if name in documents]
    missing = [f"`{name}`" for name in SUITES if name not in documents]
    if missing:
        parts.append(f"## Not measured yet\n\n{', '.join(missing)}.\n")
    return "\n".join(parts)


def write() -> None:
    """Pages and plots, into docs."""
    documents = read()
    (DOCS / "benchmarks.md").write_text(render(documents))
    performance = DOCS / "performance.md"
    performance.write_text(with_commits(performance.read_text(), documents["catalogs"]))
    for name, document in documents.items():
        suite = SUITES[name]
        if suite.x is not None and document["points"]:
            curve(suite, document, DOCS / "images" / f"bench_{name}.png")


def with_commits(text: str, document: dict[str, Any]) -> str:
    """The page with its table of commits, which begins with `_COMMITS`, made of this document."""
    before, heads, rest = text.partition(_COMMITS)
    return before + heads + _commit_rows(document) + rest[rest.index("\n\n") + 1 :]


def _commit_rows(document: dict[str, Any]) -> str:
    rows = ["---"] * len(_COMMITS.strip().strip("|").split("|")), *_commits(document)
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def _commits(document: dict[str, Any]) -> Iterator[list[str]]:
    for name, title in _CATALOGS.items():
        first: dict[str, float] = {}
        for point in (p for p in document["points"] if p["engine"] == name):
            median = point["median"]
            row = [f"{median[c]:.1f}" if c in median else "–" for c in _CPU]
            row += [f"{median[c]:,.0f}" if c in median else "–" for c in _ASKED]
            grown = median["commit_cpu_ms"] / first["commit_cpu_ms"] if first else None
            first = first or median
            yield [title, f"{point['at']:,g}", *row, "" if grown is None else f"{grown:.2f}"]


def _overview(documents: Documents) -> str:
    """tidegate's ratios of the suites in which peers take part."""
    lines = []
    for name, document in documents.items():
        ours = {p["at"]: p["median"] for p in document["points"] if p["engine"] == "tidegate"}
        for at, median in ours.items():
            ratios = [_ratio(document, base, at, median, "work_cpu_s_per_mrow") for base in BASES]
            memory = _ratio(document, "native", at, median, "peak_rss_mb")
            if any(ratio != "–" for ratio in ratios):
                where = name if at is None else f"{name}, {SUITES[name].x} {at:,g}"
                lines.append([f"[{where}](#{_anchor(SUITES[name].title)})", *ratios, memory])
    if not lines:
        return ""
    heads = ["suite", *(f"CPU / {base}" for base in BASES), "RSS / native"]
    return (
        "## Summary\n\nThe table shows tidegate's cost divided by the cost of the other systems, work only.\n\n"
        + _table(heads, lines)
    )


def _section(suite: Suite, document: dict[str, Any]) -> str:
    parts = [f"## {suite.title}\n", f"{suite.about}\n", _table(*_rows(suite, document))]
    if suite.x is not None:
        parts.append(f"![{suite.title}](images/bench_{suite.name}.png)\n")
    for engine, why in document["unavailable"].items():
        parts.append(f"Without {engine}: {why.splitlines()[0]}\n")
    for failure in document["failures"]:
        parts.append(f"**FAILED**: {failure.splitlines()[0]}\n")
    parts.append(_small_print(document))
    return "\n".join(parts)


def _rows(suite: Suite, document: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    points = document["points"]
    columns = [name for name in suite.columns if any(name in point["median"] for point in points)]
    engines = {point["engine"] for point in points}
    bases = [base for base in BASES if base in engines and "work_cpu_s_per_mrow" in columns]
    grows = suite.x is not None and not bases
    heads = ([] if suite.x is None else [suite.x]) + ["engine", *(LABELS[name] for name in columns)]
    heads += [f"/ {base}" for base in bases] + (["× the first"] if grows else []) + ["result"]
    rows = []
    for point in sorted(points, key=lambda p: p["at"] or 0):
        median = point["median"]
        row = [] if suite.x is None else [f"{point['at']:,g}"]
        row += [_name(point["engine"]), *(_number(name, median.get(name)) for name in columns)]
        row += [_ratio(document, base, point["at"], median, "work_cpu_s_per_mrow") for base in bases]
        if grows:
            first = next(p for p in points if p["engine"] == point["engine"])["median"]
            row.append(_quotient(median.get(suite.y[0]), first.get(suite.y[0])))
        rows.append([*row, _verdict(point)])
    return heads, rows


def _name(engine: str) -> str:
    return f"**{engine}**" if engine == "tidegate" else engine


def _ratio(document: dict[str, Any], base: str, at: float | None, median: dict[str, float], name: str) -> str:
    other = next((p["median"] for p in document["points"] if (p["engine"], p["at"]) == (base, at)), {})
    return _quotient(median.get(name), other.get(name))


def _quotient(one: float | None, other: float | None) -> str:
    return "–" if one is None or not other else f"{one / other:.2f}"


def _number(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if name.endswith("_mb") else f"{value:,.2f}" if value < 100 else f"{value:,.1f}"


def _verdict(point: dict[str, Any]) -> str:
    runs = [run for run in point["runs"] if run.get("exact") is not None]
    if not runs:
        return "–"
    if all(run["exact"] for run in runs):
        return "exact"
    if point["engine"] == "tidegate":
        return "**WRONG**"
    wrong = [sum(run["check"][what] for what in ("missing", "extra", "differing", "twice")) for run in runs]
    few, many = min(wrong), max(wrong)
    return f"differs: {few:,}{'' if few == many else f' to {many:,}'} of {runs[0]['check']['expected']:,}"


def _small_print(document: dict[str, Any]) -> str:
    machine, versions = document["machine"], document["versions"]
    repeats = max((len(point["runs"]) for point in document["points"]), default=0)
    scale = ", ".join(f"{name} {_plain(value)}" for name, value in document["scale"].items())
    known = ", ".join(f"{name} {value}" for name, value in versions.items())
    return (
        f"<sub>{document['date'][:16].replace('T', ' ')} UTC, commit {document['commit']}, {repeats} "
        f"run{'' if repeats == 1 else 's'} of each, {document['minutes']:g} minutes in all. {scale}. "
        f"{machine['cores']} cores ({machine['cpu']}), {machine['memory_gb']} GB, {machine['system']}. {known}. "
        f"`{document['command']}`</sub>\n"
    )


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return " / ".join(_plain(one) for one in value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _anchor(title: str) -> str:
    """As GitHub makes it of a heading."""
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


if __name__ == "__main__":
    write()
    sys.exit(0)
