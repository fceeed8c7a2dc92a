"""Runs the tasks of panes and windows in this process, as Spark would: one task for both, or panes of several first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from tidegate.tasks.panes import Both, PaneTask, WindowTask


def report_of(panes: PaneTask, windows: WindowTask, tasks: int) -> Any:
    """What the task of the windows reports, with its panes computed by so many tasks."""

    def numbers() -> Iterator[pa.RecordBatch]:
        for number in range(len(panes.tasks)):
            yield pa.RecordBatch.from_pydict({"id": [number]})

    def apart() -> Iterator[pa.RecordBatch]:
        for number in numbers():
            yield from panes(iter([number]))

    once = Both(panes, windows)(numbers()) if tasks == 1 else windows(apart())
    (report,) = [json.loads(b.column(0)[0].as_py()) for b in once]
    return report
