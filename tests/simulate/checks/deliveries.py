"""What a sink has delivered, files or messages, compared with what its view has emitted."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.inprocess.broker import Message
from tests.simulate.checks.wrong import Wrong
from tests.simulate.scripts.pipelines import VIEWS, View, line_of

if TYPE_CHECKING:
    from tests.simulate.checks.check import Checks

Rows = Counter[tuple[Any, ...]]


class Deliveries:
    """Of the sink of a pipeline. Where views may be amended, rows are compared by their windows only: what is delivered
    after an amendment is as that left it (B2)."""

    def __init__(self, checks: Checks) -> None:
        self._checks = checks

    def came_out_of_nowhere(self) -> None:
        """Raises Wrong for a file with a row that the view has not emitted."""
        if extra := self._in_files() - (self._lines(self._emitted()) | self._lines(self._amended())):
            raise Wrong(f"B1: delivered, but not emitted: {_few(extra)}")

    def came(self, number: int, message: Message) -> None:
        """A message. Raises Wrong for one that the view has not emitted, or that may not come twice."""
        topic = self._checks.sink
        assert topic is not None
        topic.came(number, message)
        if extra := self._kept(topic.delivered()) - (
            self._kept(self._emitted()) | self._kept(self._amended())
        ):
            raise Wrong(f"B1: sent, but not emitted: {_few(extra)}")

    def finish(self) -> None:
        """Raises Wrong for what was emitted and is not delivered."""
        topic = self._checks.sink
        if self._checks.pipeline.sink and (missing := self._lines(self._emitted()) - self._in_files()):
            raise Wrong(f"B1: emitted, but not delivered: {_few(missing)}")
        if topic is not None:
            if left := self._kept(self._emitted()) - self._kept(topic.delivered()):
                raise Wrong(f"B1: emitted, but not sent: {_few(left)}")
            topic.in_order()

    def _view(self) -> View:
        return VIEWS[self._checks.pipeline.views[0]]

    def _emitted(self) -> Rows:
        return self._checks.emitted.get(self._view().name, Counter())

    def _amended(self) -> Rows:
        """What an amendment may make of the rows of the view: groups of late rows alone, too."""
        checks, view = self._checks, self._view()
        if checks.exact:
            return Counter()
        on_time, late, upto = checks.on_time(), checks.judged("late"), checks.frontiers.get(view.name)
        if view.amended is None:
            # The whole of such a view is not compared, but no row may come out of nowhere.
            return Counter(view.truth([*on_time, *late], upto))
        return Counter(view.amended(on_time, late, upto))

    def _kept(self, rows: Rows) -> Rows:
        """What of rows is compared."""
        if self._checks.exact:
            return rows
        found: Rows = Counter()
        for row, count in rows.items():
            found[row[:3]] += count
        return found

    def _in_files(self) -> Counter[str]:
        """The lines that a reader of the sink's folder has."""
        files, out = self._checks.world.store.files, f"{self._checks.world.root}/out/"
        paths = [path for path in files if path.startswith(out) and "/_tidegate/" not in path]
        text = "".join(files[path].decode() for path in paths)
        # (Sail writes a zone where Spark writes none.)
        return Counter(map(self._shown, text.replace("000Z", "000").splitlines()))

    def _lines(self, rows: Rows) -> Counter[str]:
        found = Counter[str]()
        for row, count in rows.items():
            found[self._shown(line_of(self._view(), row))] += count
        return found

    def _shown(self, line: str) -> str:
        return line if self._checks.exact else ",".join(line.split(",")[:3])


def _few(found: Counter[Any]) -> str:
    return f"{list(found.items())[:3]}"
