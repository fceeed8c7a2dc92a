"""How the processes of `make test` share the tests: half of them have Spark.

A JVM takes half a minute of CPU before it is warm. So all tests that ask for the process's Spark go to half of the
processes, module by module, and the others, module by module, to the other processes: both take about as long. One that
has nothing of its own left helps the others, if there is enough left to pay for a JVM.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

#: What a process with tests is told, and where it says which of them need Spark: the one that shares collects none.
_FILE = "file of tests that need Spark"
#: Behind the name of a module: those of its tests that need Spark.
_SPARK = " on Spark"
#: So many modules are worth another JVM.
_WORTH = 8


def say(config: pytest.Config, tests: list[str]) -> None:
    """In a process with tests: these need Spark."""
    if file := getattr(config, "workerinput", {}).get(_FILE):
        Path(file).write_text("\n".join(tests), encoding="utf-8")


class Sharing:
    """The plugin of the process that shares."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="tidegate-sharing-")

    def pytest_configure_node(self, node: WorkerController) -> None:
        node.workerinput[_FILE] = str(Path(self._folder.name, node.gateway.id))

    @pytest.hookimpl(tryfirst=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> SparkInHalfOfThem | None:
        return SparkInHalfOfThem(config, log) if config.getvalue("dist") == "loadscope" else None


class SparkInHalfOfThem(LoadScopeScheduling):
    def schedule(self) -> None:
        if self.collection is None:
            file = Path(self.nodes[0].workerinput[_FILE])
            self._need_spark = frozenset(file.read_text(encoding="utf-8").split("\n"))
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        return super()._split_scope(nodeid) + (_SPARK if nodeid in self._need_spark else "")

    def _assign_work_unit(self, node: WorkerController) -> None:
        if (scope := self._next(node)) is not None:
            self.workqueue.move_to_end(scope, last=False)
            super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        if not node.shutting_down and self.workqueue and self._next(node) is None:
            node.shutdown()
        else:
            super()._reschedule(node)

    def _next(self, node: WorkerController) -> str | None:
        """The first module of what the process does, else of what the others do; None: it is to do no more."""
        with_spark = [scope for scope in self.workqueue if scope.endswith(_SPARK)]
        without = [scope for scope in self.workqueue if not scope.endswith(_SPARK)]
        has_spark = node in self.nodes[: max(1, len(self.nodes) // 2)]
        if has_spark or any(scope.endswith(_SPARK) for scope in self.assigned_work[node]):
            return next(iter(with_spark + without), None)
        return next(iter(without + (with_spark if len(with_spark) >= _WORTH else [])), None)
