"""A team's project for the suite `many`: its sources and views, the rows of their topics, and what must come out."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from tests.benchmarks.bench import EngineFailed, make_project
from tests.benchmarks.load import Load, events
from tests.benchmarks.many.streams import Stream
from tests.benchmarks.queries import Query, tidegate_source, tidegate_view
from tests.benchmarks.truth import differing, judge, windows
from tidegate.project import Project
from tidegate.store.metadata import CommittedTable, load_table

SECOND = 1_000_000
#: Of every source: the delay of its watermark, partitions, different keys.
DELAY_S, PARTITIONS, KEYS = 1, 3, 20
#: Rows of a source that nothing is sent to afterwards.
_QUIET_ROWS = 60
CATALOG = {"type": "jdbc", "uri": "jdbc:sqlite:.tidegate/warehouse/catalog.db"}
_COLUMNS = ("window_start", "key", "cnt", "total")


@dataclass(frozen=True)
class Case:
    """`sources` with `views` each, `rate` rows per second to the first `active` of them. `must`: the figures that the
    project wants, at most; `minutes`: to measure after the warm-up (memory: the last third of both)."""

    name: str
    sources: int
    views: int
    rate: int
    interval: str
    must: dict[str, float]
    active: int = 0
    minutes: float = 28.0
    kind: str = "steady"

    def source(self, number: int) -> str:
        return f"s{number}"

    def view(self, source: int, number: int) -> str:
        return f"v{source}_{number}"


def query_of(number: int) -> Query:
    """Of a source's view: the first has windows of a second, the others longer ones."""
    size = 1 + number
    return Query("windows", size_s=size, slide_s=size, delay_s=DELAY_S)


def make_team(folder: Path, bootstrap: str, case: Case, streams: Sequence[Stream]) -> Project:
    statements = []
    for number, stream in enumerate(streams):
        options = {"connector": "kafka", "topic": stream.topic, "properties.bootstrap.server": bootstrap}
        source = tidegate_source(query_of(0), options, "JSON", False)
        statements.append(source.replace("SOURCE events", f"SOURCE {case.source(number)}", 1))
        for k in range(case.views):
            statements.append(tidegate_view(query_of(k), case.view(number, k), case.source(number)))
    project = make_project(folder, *statements)
    settings = project / "resources" / "local.yaml"
    # As `tidegate init` makes it, and with a catalog that says of all tables at once which of them has a new commit.
    known = json.loads(settings.read_text())
    settings.write_text(json.dumps(known | {"warehouse": {"catalog": CATALOG}}))
    return Project.load(project)


def team_streams(case: Case, seconds: float, tick_s: float) -> list[Stream]:
    ticks = max(2, round(seconds / tick_s))
    found = []
    for number in range(case.sources):
        quiet = number >= case.active
        load = Load(
            _QUIET_ROWS if quiet else int(case.rate * seconds),
            PARTITIONS,
            KEYS,
            _QUIET_ROWS if quiet else case.rate,
            disorder_s=0.0 if quiet else 0.5,
            late_s=(5.0, 20.0),
            payload=100,
            seed=number,
        )
        found.append(Stream(f"many-{number}", load, ticks, quiet))
    return found


def checked_team(project: Project, case: Case, streams: Sequence[Stream]) -> dict[str, int]:
    """How many rows of all logs and views are not what they must be."""
    wrong = {"log": 0, "expected": 0, "found": 0}
    for number, stream in enumerate(streams):
        log = events(stream.load)
        judged = judge(log, DELAY_S * SECOND)
        table = stored(project, case.source(number))
        counted = [table.integer(f"tidegate.{name}") or 0 for name in ("on_time", "late", "rejected")]
        wrong["log"] += counted != [len(judged.on_time), judged.late, 0]
        for k in range(case.views):
            size = query_of(k).size_s * SECOND
            right = windows(judged.on_time, size, size, judged.watermark)
            found = differing(right, closed_rows(project, case.view(number, k)), query_of(k).keys)
            for name, count in found.items():
                wrong[name] = wrong.get(name, 0) + count
    return wrong


def is_right(check: dict[str, int]) -> bool:
    return not any(count for name, count in check.items() if name not in ("expected", "found"))


def stored(project: Project, name: str) -> CommittedTable:
    found = load_table(project.storage, name)
    if found is None:
        raise EngineFailed(f"there is no table of {name}")
    return found


def closed_rows(project: Project, view: str, columns: Sequence[str] = _COLUMNS) -> dict[str, np.ndarray]:
    """What a view's table holds of closed windows, by pyiceberg."""
    from pyiceberg.table import StaticTable

    table = stored(project, view)
    static = StaticTable.from_metadata(table.metadata_location, project.storage.pyiceberg_properties())
    rows = static.scan(row_filter="_open = false", selected_fields=tuple(columns)).to_arrow()
    return {name: pc.cast(rows.column(name), "int64").to_numpy() for name in columns}


def _locations(project: Project) -> dict[str, str]:
    """The newest metadata of every table: what changes with each commit."""
    file = project.storage.sqlite
    if file is None or not file.is_file():
        return {}
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=30)) as database:
        try:
            return dict(database.execute("SELECT table_name, metadata_location FROM iceberg_tables"))
        except sqlite3.OperationalError:
            return {}  # the catalog is being made


def has_ticked(project: Project, case: Case, sources: Sequence[int]) -> bool:
    """Whether all of these sources and their views have committed."""
    wanted = {case.source(n) for n in sources} | {case.view(n, k) for n in sources for k in range(case.views)}
    if not wanted <= _locations(project).keys():
        return False
    return all((stored(project, case.source(n)).integer("tidegate.epoch") or 0) > 0 for n in sources)
