"""What `make soak` measures every few seconds: processes, tables, times and lag of a running pipeline."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.pipeline import LiveLog
from tests.chaos.processes import Process
from tests.soak.trend import Limit
from tidegate.errors import TidegateError
from tidegate.project import Project
from tidegate.store.metadata import load_table

MB = 1 << 20


@dataclass(frozen=True)
class Series:
    """One thing that is measured. `limit`: when it counts as growing; None: it is shown, and not judged."""

    unit: str
    limit: Limit | None


_MEMORY = Limit(0.10, 30)
_FEW, _FILES = Limit(0.10, 5), Limit(0.20, 50)
_SECONDS = Limit(0.20, 0.3)
_OF_TABLE = {
    "data files": Series("", _FILES),
    "files on disk": Series("", _FILES),
    "snapshots": Series("", _FILES),
    "metadata": Series("KB", Limit(0.20, 200)),
}
SLOWEST = "tick of the slowest group"


def series(tables: Sequence[str], has_groups: bool = False) -> dict[str, Series]:
    """Every column of the CSV behind `seconds`, in order. `has_groups`: more than one."""
    out = {
        "memory supervisor": Series("MB", _MEMORY),
        "memory worker": Series("MB", _MEMORY),
        "memory jvm": Series("MB", _MEMORY),
        "memory spark python": Series("MB", _MEMORY),
        "threads jvm": Series("", _FEW),
        "threads kafka": Series("", _FEW),
        "open files worker": Series("", _FEW),
        "open files jvm": Series("", Limit(0.10, 20)),
        "processes": Series("", _FEW),
        "tick": Series("s", _SECONDS),
        **({SLOWEST: Series("s", _SECONDS)} if has_groups else {}),
        "batch": Series("s", _SECONDS),
        "commits of a tick": Series("s", _SECONDS),
        "rows waiting": Series("rows", None),
        "watermark behind": Series("s", Limit(0.20, 5)),
        "rows": Series("rows", None),
    }
    return out | {f"{table}: {kind}": one for table in tables for kind, one in _OF_TABLE.items()}


def of_processes(processes: list[Process]) -> dict[str, float]:
    """Memory, threads and files; `processes` as `tree` gives them, the supervisor first."""
    out: dict[str, float] = {"processes": len(processes)}
    roles: dict[str, list[Process]] = {}
    for i, process in enumerate(processes):
        roles.setdefault(_role(process, i), []).append(process)
    for role in ("supervisor", "worker", "jvm", "spark python"):
        found = roles.get(role, [])
        if found:
            out[f"memory {role}"] = sum(p.resident_bytes() for p in found) / MB
    for role in ("worker", "jvm"):
        if roles.get(role):
            out[f"open files {role}"] = sum(p.open_files() for p in roles[role])
    threads = [name for p in roles.get("jvm", []) for name in p.thread_names()]
    if threads:
        out["threads jvm"] = len(threads)
        out["threads kafka"] = sum(name.startswith("kafka") for name in threads)
    return out


def _role(process: Process, place: int) -> str:
    if place == 0:
        return "supervisor"
    if process.is_java:
        return "jvm"
    return "spark python" if process.is_spark_python else "worker"


def of_tables(project: Project, tables: Sequence[str]) -> dict[str, float]:
    """What is measured of each of these tables, as far as it is to be had."""
    return {f"{table}: {kind}": value for table in tables for kind, value in of_table(project, table).items()}


def of_table(project: Project, table: str) -> dict[str, float]:
    """Data files that the newest snapshot has, all files on disk, snapshots, and the size of all metadata; empty if the
    table is not to be had just now."""
    storage = project.storage
    try:
        state = load_table(storage, table)
        if state is None:
            return {}
        content = json.loads(storage.content(state.metadata_location))
    except (TidegateError, OSError, ValueError):
        return {}  # it is being committed to
    current = next(
        (s for s in content["snapshots"] if s["snapshot-id"] == state.current_snapshot_id),
        {"summary": {}},
    )
    assert storage.local_warehouse is not None
    folder = storage.local_warehouse / storage.namespace_of(table) / table
    return {
        "data files": int(current["summary"].get("total-data-files", 0)),
        "files on disk": _count(folder / "data")[0],
        "snapshots": len(content["snapshots"]),
        "metadata": _count(folder / "metadata")[1] / 1024,
    }


def together(
    found: Sequence[Mapping[str, float]], how: Callable[[Iterable[float]], float]
) -> dict[str, float]:
    """One figure for many tables or sources; none if one of them has none: a sum of the others would be too low."""
    names = [name for name in found[0] if all(name in one for one in found)]
    return {name: how(one[name] for one in found) for name in names}


def _count(folder: Path) -> tuple[int, int]:
    """(files, bytes) below a folder; checksum files of the local filesystem are not counted."""
    files = size = 0
    for base, _, names in os.walk(folder):
        for name in names:
            if not name.startswith("."):
                try:
                    size += os.stat(os.path.join(base, name)).st_size
                except FileNotFoundError:
                    continue
                files += 1
    return files, size


class Told:
    """What the pipeline's JSON log says since it was last looked at."""

    def __init__(self, path: Path) -> None:
        self._log = LiveLog(path)

    def times(self) -> dict[str, float]:
        """Medians of ticks, batches and commits, in seconds, and that of the group whose ticks took longest."""
        values: dict[str, list[float]] = {}
        groups: dict[str, list[float]] = {}
        for event in self._log.events():
            kind = event.get("event")
            if kind == "tick_finished" and event.get("rows"):
                values.setdefault("tick", []).append(event["seconds"])
                groups.setdefault(event["group"], []).append(event["seconds"])
                values.setdefault("commits of a tick", []).append(event["commit_seconds"])
            elif kind == "batch_committed":
                values.setdefault("batch", []).append(event["seconds"])
        if groups:
            values[SLOWEST] = [max(statistics.median(found) for found in groups.values())]
        return {name: statistics.median(found) for name, found in values.items()}


def of_lag(
    project: Project, source: str, ends: Callable[[], Mapping[int, int]], clock: Callable[[], float]
) -> dict[str, float]:
    """Rows that are in the log and that wait, and how far the watermark is behind the clock."""
    try:
        state = load_table(project.storage, source)
    except TidegateError:
        return {}
    if state is None:
        return {}
    rows = sum(state.integer(f"tidegate.{outcome}") or 0 for outcome in ("on_time", "late", "rejected"))
    out: dict[str, float] = {"rows": rows, "rows waiting": sum(ends().values()) - rows}
    watermark = state.integer("tidegate.watermark")
    if watermark is not None:
        out["watermark behind"] = clock() - watermark / 1e6
    return out
