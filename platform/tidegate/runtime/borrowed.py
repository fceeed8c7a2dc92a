"""What a branch (`reads:`) may not deliver into: where the environment that it reads keeps, delivers and reads (X3)."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.project import Project
from tidegate.project.kafka import topic
from tidegate.sql.catalog.objects import Sink
from tidegate.sql.options.connectors import FilesystemOptions
from tidegate.sql.options.kafka_options import KafkaOptions, KafkaSinkOptions
from tidegate.sql.options.sink_connectors import FilesystemSinkOptions, IcebergSinkOptions
from tidegate.store.positions import kafka_position, sink_table

if TYPE_CHECKING:
    from collections.abc import Iterator


class Borrowed:
    """The places of the environment that a branch reads. What its files say of them is read once for a session, which
    delivers often; what it has on record is looked at each time."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def refuse(self, sink: Sink) -> None:
        """Raise TG515 for a sink of a branch whose place is the other environment's: a table in its namespace or of one
        of its sinks, a folder of its warehouse, sinks or sources, a topic that they write or read. Topics are the same
        if their names are: one broker has many addresses."""
        project, reads = self._project, self._project.env.reads
        if reads is None:
            return
        kind, own = _place(project, sink)
        delivered = [(("topic", own), "the topic of a sink")] if _delivers(self._lender, kind, own) else []
        for other, what in [*self._places, *delivered]:
            if kind == other[0] and _overlap(own, other[1]):
                raise TidegateError(
                    "TG515",
                    f'"{sink.name}" would deliver into {own}, {what} of environment "{reads}", which '
                    f'can only be read in environment "{project.env_name}"',
                    hint="give the sink a place of its own",
                    location=sink.location,
                )

    @cached_property
    def _lender(self) -> Project:
        return Project.load(self._project.root, self._project.env.reads or "")

    @cached_property
    def _places(self) -> list[tuple[tuple[str, str], str]]:
        return list(_places(self._lender))


def _place(project: Project, sink: Sink) -> tuple[str, str]:
    """(kind, name) of where a sink delivers."""
    options = sink.connector
    if isinstance(options, IcebergSinkOptions):
        return "table", "/".join(sink_table(project.storage, sink))
    if isinstance(options, FilesystemSinkOptions):
        return "folder", _folder(project, options.path)
    if isinstance(options, KafkaSinkOptions):
        return "topic", topic(options)
    return "console", sink.name


def _places(lender: Project) -> Iterator[tuple[tuple[str, str], str]]:
    """The places of an environment, and what each is of it."""
    yield ("table", lender.env.warehouse.namespace), "the namespace"
    yield ("folder", _folder(lender, lender.env.warehouse.path)), "the warehouse"
    catalog = lender.catalog()
    for sink in catalog.sinks:
        if (place := _place(lender, sink))[0] != "console":
            yield place, f'the place of sink "{sink.name}"'
    for relation in catalog.relations:
        options, what = relation.connector, f'what source "{relation.name}" reads'
        if isinstance(options, KafkaOptions):
            yield ("topic", topic(options)), what
        elif isinstance(options, FilesystemOptions):
            yield ("folder", _folder(lender, options.path)), what


def _folder(project: Project, path: str) -> str:
    """The URI of a folder, or the path on this machine, wherever `..` and links lead."""
    uri = project.storage.uri(path)
    return os.path.realpath(uri.removeprefix("file://")) if uri.startswith("file://") else uri


def _delivers(lender: Project, kind: str, own: str) -> bool:
    """Whether a sink of the environment has delivered into a topic, whatever the files here say of its sinks."""
    from pyarrow.fs import FileSelector, FileType

    if kind != "topic":
        return False
    filesystem, folder = lender.storage.filesystem(lender.storage.work_folder("")[:-1])
    folders = filesystem.get_file_info(FileSelector(folder, allow_not_found=True))
    files = [f"{f.path}/{kafka_position(own)}" for f in folders if f.type == FileType.Directory]
    return any(info.is_file for info in filesystem.get_file_info(files))


def _overlap(one: str, other: str) -> bool:
    """Whether one place is the other, or is in it."""
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")
