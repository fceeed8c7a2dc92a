"""Named points at which a run can be made to end, as a killed process does: before and after each thing that it leaves
behind. The process goes on, so it costs milliseconds; what a real `kill -9` does is tested by few tests on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from tests.inprocess.stored.tables import InProcessTable, InProcessTables
from tests.inprocess.stored.upkeep import InProcessUpkeep
from tidegate.iceberg import retire
from tidegate.ingest.stream import PlanInbox
from tidegate.maintenance import erase_branches, erase_log, erase_views
from tidegate.maintenance.erasing import ErasingFile
from tidegate.sinks.filesystem import FilesystemSink
from tidegate.sinks.statefile import StateFile
from tidegate.tasks.memories import MemoryFiles
from tidegate.views.versions import renaming

POINTS: tuple[tuple[Any, str], ...] = (
    (InProcessTables, "create_table"),
    (InProcessTables, "rename_table"),
    (InProcessTables, "make_version"),
    (InProcessTables, "end_version"),
    (InProcessTables, "drop_table"),
    (InProcessTables, "add_stored_column"),
    (InProcessTable, "append"),
    (InProcessTable, "merge_rows"),
    (InProcessTable, "delete_rows"),
    (InProcessTable, "set_properties"),
    (InProcessTable, "tag"),
    (InProcessTable, "swap"),
    (InProcessTable, "forget_tags"),
    (InProcessUpkeep, "_write"),
    (InProcessUpkeep, "_commit"),
    (InProcessUpkeep, "_delete"),
    (retire, "_write"),
    (retire, "_forget"),
    (erase_branches, "remove_folder"),
    (erase_log, "forget_superseded"),
    (erase_log, "recorded"),
    (erase_views, "mark"),
    (ErasingFile, "write"),
    (ErasingFile, "remove"),
    (PlanInbox, "write"),
    (PlanInbox, "forget"),
    (renaming, "leave"),
    (StateFile, "write"),
    (StateFile, "remove"),
    (FilesystemSink, "_finish"),
    (FilesystemSink, "_remove"),
    (MemoryFiles, "_delete"),
)


class Killed(BaseException):
    """The end of a process: nothing that handles errors sees it."""


class Failpoints:
    """Counts the points that a run passes, and ends it at the one with this number, from 0 on (None: at none).
    `passed`: their names, in order. `notice` gets each number as the run comes to it."""

    def __init__(
        self, end_at: int | None = None, notice: Callable[[int], object] = lambda number: None
    ) -> None:
        self._end_at, self._notice = end_at, notice
        self.passed: list[str] = []

    def reach(self, name: str) -> None:
        """Come to a point."""
        self.passed.append(name)
        self._notice(len(self.passed) - 1)
        if len(self.passed) - 1 == self._end_at:
            raise Killed(name)

    @contextmanager
    def armed(self) -> Iterator[Failpoints]:
        """While the block runs."""
        patches = [patch.object(owner, name, self._watched(owner, name)) for owner, name in POINTS]
        for one in patches:
            one.start()
        try:
            yield self
        finally:
            for one in reversed(patches):
                one.stop()

    def _watched(self, owner: Any, name: str) -> Callable[..., Any]:
        real, label = getattr(owner, name), f"{owner.__name__}.{name}"

        def watched(*given: Any, **named: Any) -> Any:
            self.reach(f"before {label}")
            found = real(*given, **named)
            self.reach(f"after {label}")
            return found

        return watched
