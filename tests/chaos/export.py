"""Write what a project holds as plain Parquet, for the comparison.

`python -m tests.chaos.export PROJECT FOLDER GROUPS`, with the number of groups. Event times are microseconds since
1970, the wall clock is milliseconds. Only the public tables are read. `load` reads the folder of a group, without a
JVM.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.chaos.project import SORTED, SORTED_COLUMNS, SOURCE, VIEWS, named
from tests.chaos.replay import Judged, Mark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.session.session import Session


def export(session: Session, folder: Path, groups: int) -> None:
    """Every table of the comparison into a folder, which is called as in the first group, below its group's number."""
    for number in range(1, groups + 1):
        _export(session, folder / str(number), number)


def _export(session: Session, folder: Path, number: int) -> None:
    def micros(column: str, name: str | None = None) -> str:
        return f"unix_micros(CAST({column} AS TIMESTAMP)) AS {name or column}"

    def write(name: str, frame: DataFrame) -> None:
        frame.write.mode("overwrite").parquet(str(folder / name))

    source = named(SOURCE, number)
    raw = session.table(f"{source}$raw")
    write(
        "raw",
        raw.selectExpr("partition", "offset", "outcome", micros("watermark", "missed"), "reason", "epoch"),
    )
    history = session.table(f"{source}$watermarks")
    names = ["epoch", "partition", "state", "next_offset", "on_time", "late", "rejected"]
    end = "end_offset AS `end`" if "end_offset" in history.columns else "CAST(NULL AS BIGINT) AS `end`"
    times = [micros("watermark"), micros("published"), "unix_millis(at) AS at"]
    write("history", history.selectExpr(*names, *times, end))
    for view in VIEWS:
        bounds = [micros("window_start"), micros("window_end")]
        stored = session.table(named(view.name, number))
        write(view.name, stored.selectExpr(*bounds, *view.keys, *view.aggregates))
    # One file after the other, in the order in which the view is read.
    write(SORTED, session.table(named(SORTED, number)).selectExpr(micros("ts"), *SORTED_COLUMNS))


@dataclass(frozen=True)
class Exported:
    """What `check` wants of a group beside its topics."""

    raw: dict[str, list[Judged]]
    history: list[Mark]
    windows: Mapping[str, list[tuple]]
    in_order: list[tuple]


def load(folder: Path) -> Exported:
    """Read what was exported of a group."""
    marks = _columns(folder / "history")
    history = [Mark(**dict(zip(marks, values, strict=True))) for values in zip(*marks.values(), strict=True)]
    columns = _columns(folder / "raw")
    raw: dict[str, list[Judged]] = {}
    places = zip(*(columns[name] for name in ("partition", *Judged._fields)), strict=True)
    for partition, *values in places:
        raw.setdefault(partition, []).append(Judged(*values))
    for rows in raw.values():
        rows.sort(key=lambda row: row.offset)
    windows = {view.name: _tuples(folder / view.name) for view in VIEWS}
    return Exported(raw, history, windows, _tuples(folder / SORTED))


def _columns(folder: Path) -> dict[str, list[Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = sorted(folder.glob("part-*.parquet"))
    table = pa.concat_tables([pq.read_table(file, partitioning=None) for file in files])
    return {name: table.column(name).to_pylist() for name in table.column_names}


def _tuples(folder: Path) -> list[tuple]:
    return list(zip(*_columns(folder).values(), strict=True))


if __name__ == "__main__":
    import tidegate

    opened = tidegate.connect(project=Path(sys.argv[1]))
    export(opened, Path(sys.argv[2]), int(sys.argv[3]))
    opened.close(stop_spark=True)
