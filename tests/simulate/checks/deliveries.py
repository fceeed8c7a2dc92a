"""What a sink has delivered, files or messages, compared with what its view has emitted."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.inprocess.broker import Message
from tests.simulate.checks.wrong import Wrong
from tests.simulate.scripts.pipelines import line_of
from tests.simulate.scripts.views import View

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
        if extra := self._in_files() - self._lines(self._allowed()):
            raise Wrong(f"B1: delivered, but not emitted: {_few(extra)}")

    def came(self, number: int, message: Message) -> None:
        """A message. Raises Wrong for one that the view has not emitted, or that may not come twice."""
        topic = self._checks.sink
        assert topic is not None
        topic.came(number, message)
        if extra := self._kept(topic.delivered()) - self._kept(self._allowed()):
            raise Wrong(f"B1: sent, but not emitted: {_few(extra)}")

    def finish(self) -> None:
        """Raises Wrong for what was emitted and is not delivered."""
        topic = self._checks.sink
        if self._checks.pipeline.sink:
            came = self._in_files()
            if missing := self._not_joined(self._lines(self._emitted()) - came, came):
                raise Wrong(f"B1: emitted, but not delivered: {_few(missing)}")
        if topic is not None and (self._checks.exact or not self._checks.pipeline.upserts):
            sent = self._kept(topic.delivered())
            if left := self._not_joined(self._kept(self._emitted()) - sent, sent):
                raise Wrong(f"B1: emitted, but not sent: {_few(left)}")
        if topic is not None:
            topic.in_order()

    def _not_joined(self, missing: Counter[Any], delivered: Counter[Any]) -> Counter[Any]:
        """Without the sessions that an amendment has joined to a longer one before they were delivered, if that one is
        (B2)."""
        if self._checks.exact or not self._view().of_sessions:
            return missing
        longer = [_session(row) for row in delivered]

        def is_joined(row: Any) -> bool:
            key, start, end = _session(row)
            return any(k == key and since <= start and end <= until for k, since, until in longer)

        return Counter({row: n for row, n in missing.items() if not is_joined(row)})

    def _view(self) -> View:
        return self._checks.views[self._checks.pipeline.views[0]]

    def _emitted(self) -> Rows:
        return self._checks.emitted.get(self._view().name, Counter())

    def _allowed(self) -> Rows:
        """What may be delivered: what was emitted, or what an amendment has made of that."""
        emitted = self._emitted()
        return emitted if self._checks.exact else emitted | self._checks.shown[self._view().name]

    def _kept(self, rows: Rows) -> Rows:
        """What of rows is compared."""
        if self._checks.exact:
            return rows
        if self._checks.pipeline.upserts:
            # (A row that an amendment leaves as it was is sent once more with its window.)
            return Counter(rows.keys())
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


def _session(row: str | tuple[Any, ...]) -> tuple[Any, Any, Any]:
    """Key, start and end of a session, as a row or as a line of a file."""
    key, start, end = (row.split(",") if isinstance(row, str) else row)[:3]
    return key, start, end


def _few(found: Counter[Any]) -> str:
    return f"{list(found.items())[:3]}"
