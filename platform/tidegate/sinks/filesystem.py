"""`connector = 'filesystem'`: files in a folder of the sink's own.

A delivery is written beside the data, in `_tidegate/staging`, by all tasks at once. One write of the position file,
`_tidegate/position.json`, then decides it: from there on the files only have to be renamed into place, which the next
run finishes if this one can't. Names say which commits are in a file, and sort in the order of delivery.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

from tidegate.errors import TidegateError
from tidegate.jvm.failures import refused
from tidegate.project.object_store import make_folder
from tidegate.sinks.filewriter import EncodeTask, encoded, head
from tidegate.sinks.sink_writer import Delivered
from tidegate.sinks.statefile import StateFile
from tidegate.sinks.upstream import Upstream, few_files
from tidegate.sql.catalog.objects import Sink
from tidegate.sql.options.sink_connectors import FilesystemSinkOptions
from tidegate.store.positions import Position, position_file
from tidegate.tasks.writer import run_task

if TYPE_CHECKING:
    from tidegate.runtime.context import Context

_OWN = "_tidegate"


class FilesystemSink:
    """See `SinkWriter`."""

    replaces: ClassVar[bool] = False

    def __init__(self, context: Context, sink: Sink) -> None:
        assert isinstance(sink.connector, FilesystemSinkOptions)
        self._spark, self._tables, self._sink = context.spark, context.tables, sink
        storage = context.project.storage
        self._filesystem, self._path = storage.filesystem(sink.connector.path)
        self._state = StateFile(storage, position_file(storage, sink), sink.name, context.runner.conditions)

    def position(self) -> Position | None:
        state = self._state.read()
        if state is None:
            return None
        if state["sink"] != self._sink.name:
            raise self._not_ours(f'sink "{state["sink"]}" delivers into it')
        if state["pending"] is not None:
            state = self._finish(state)
        return Position.of_document(state)

    def begin(self, position: Position) -> None:
        from pyarrow.fs import FileSelector

        found = self._filesystem.get_file_info(FileSelector(self._path, allow_not_found=True))
        if others := [info.base_name for info in found if info.base_name != _OWN]:
            raise self._not_ours(f"it contains {others[0]}")
        self._state.write(self._document(position))

    def deliver(self, upstream: Upstream, after: Position) -> Delivered:
        staging = f"{self._path}/{_OWN}/staging"
        # Another machine's delivery can't be decided any more once its files go.
        self._state.take(self._document(after))
        # What a delivery left that broke off before it was decided.
        self._remove(staging)
        make_folder(self._filesystem, staging)
        form = self._sink.format
        assert form is not None
        try:
            rows = encoded(upstream.rows(self._tables, after), form)
        except Exception as error:
            raise refused(f'sink "{self._sink.name}"', error, self._sink.location) from error
        first = head([column.name for column in upstream.source.columns], form)
        with few_files(self._spark):
            written = run_task(rows, EncodeTask(self._filesystem, staging, first))
        files = sorted((file for file in written if file["rows"]), key=lambda file: file["task"])
        ending = "jsonl" if form.encode == "json" else form.encode
        commits = f"{_of_version(after)}{after.tick + 1:012}-{upstream.newest.tick:012}"
        pending = {
            "tick": upstream.newest.tick,
            "total": upstream.newest.total,
            "commit": upstream.newest.commit,
            "files": [
                {"from": file["name"], "to": f"{commits}-{number:05}.{ending}"}
                for number, file in enumerate(files)
            ],
        }
        document = self._document(after) | {"pending": pending}
        self._state.write(document)
        self._finish(document)
        return Delivered(sum(file["rows"] for file in files))

    def go_on(self, position: Position) -> None:
        self._state.write(self._document(position))

    def forget(self) -> None:
        self._remove(f"{self._path}/{_OWN}")

    def _document(self, position: Position) -> dict[str, Any]:
        return {"sink": self._sink.name, **asdict(position), "pending": None}

    def _finish(self, state: dict[str, Any]) -> dict[str, Any]:
        """Rename what is decided into place; a file that is not in staging any more is there already."""
        staging = f"{self._path}/{_OWN}/staging"
        for file in state["pending"]["files"]:
            staged = f"{staging}/{file['from']}"
            if self._filesystem.get_file_info(staged).is_file:
                self._filesystem.move(staged, f"{self._path}/{file['to']}")
        reached = {key: state["pending"].get(key) for key in ("tick", "total", "commit")}
        done = state | reached | {"pending": None}
        self._state.write(done)
        self._remove(staging)
        return done

    def _remove(self, folder: str) -> None:
        if self._filesystem.get_file_info(folder).type.name == "Directory":
            # Another machine may have removed it since.
            with suppress(FileNotFoundError):
                self._filesystem.delete_dir(folder)

    def _not_ours(self, why: str) -> TidegateError:
        return TidegateError(
            "TG541",
            f'"{self._sink.name}" can\'t deliver into {self._path}: {why}',
            hint="give the sink a folder of its own, new or empty",
            location=self._sink.location,
        )


def _of_version(position: Position) -> str:
    """What names begin with: nothing for the first version of a view, whose commits have other numbers than those of
    the later ones; their names sort behind it."""
    _, _, number = position.table.partition("/")
    return f"v{int(number):05}-" if number else ""
