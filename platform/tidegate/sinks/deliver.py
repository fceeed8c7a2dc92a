"""Bring sinks up to date: begin, catch up, and refuse what would deliver something twice."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.plan.events import Event, RowsDelivered, SinkDelivered
from tidegate.plan.sink_stages import SinkStage
from tidegate.plan.stages import delivery_stages
from tidegate.runtime.result import SinkReport
from tidegate.sinks.changed import behind, follow, require_newest, require_way
from tidegate.sinks.console import ConsoleSink
from tidegate.sinks.filesystem import FilesystemSink
from tidegate.sinks.iceberg import IcebergSink
from tidegate.sinks.kafka import KafkaSink, require_topic
from tidegate.sinks.sink_writer import Delivered, SinkWriter
from tidegate.sinks.statefile import StateFile
from tidegate.sinks.upstream import Upstream
from tidegate.sql.catalog.objects import Sink
from tidegate.sql.options.kafka_options import KafkaSinkOptions
from tidegate.sql.options.sink_connectors import ConsoleSinkOptions, FilesystemSinkOptions, IcebergSinkOptions
from tidegate.store.positions import (
    Position,
    deployment,
    deployment_file,
    is_elsewhere,
    last_deployment,
    read_position,
    refusal_file,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegate.runtime.context import Context


def deliver(context: Context, sink: Sink, notify: Callable[[Event], None] | None = None) -> SinkReport:
    """Deliver everything that is final and not delivered yet, from the beginning (`snapshot`) the first time; and what
    was amended since it was delivered, if the sink upserts that (B2).

    `notify`: who hears of it, and shows the rows of a console sink; None prints those on standard output. Raises TG508
    if another process delivers for this sink, TG506 if the view has another version and the sink another definition,
    TG541 if its place is not its own, TG542 if what it delivered from is gone."""
    started = time.monotonic()
    with context.lease(sink.name):
        upstream = Upstream.of(context, sink)
        if upstream is None:
            return SinkReport(sink.name)
        writer = open_sink(context, sink, notify)
        position = _position(writer, upstream)
        is_same = position.table == upstream.newest.table
        _require_known(context, sink, upstream, position)
        if is_same and not upstream.has_news(position):
            return SinkReport(sink.name)
        if not is_same:
            require_newest(context, sink)
            require_way(sink, position, upstream, Upstream.of_version(context, sink, position.table))
        _record(context, sink)
        planned = delivery_stages(context.catalog, sink, context.project.storage.namespace_of)
        stages = context.stages(planned)
        done = stages.carry_out(SinkStage, lambda _: _delivered(context, sink, writer, upstream, position))
    if (done.rows or done.amended) and notify is not None:
        seconds = round(time.monotonic() - started, 3)
        notify(SinkDelivered(sink.name, sink.connector.connector, done.rows, seconds, done.amended))
    return SinkReport(sink.name, done.rows, done.amended)


def require_continues(context: Context, sink: Sink) -> None:
    """Raise what would keep a Kafka sink that has begun from going over to a version of its view that is computed next:
    TG542 for one that is not at the current version, or not of its commits; and TG506, TG541, TG554, TG550, TG551 or
    TG621."""
    upstream, found = Upstream.of(context, sink), read_position(context.project.storage, sink)
    if upstream is None or found is None:
        return
    if found[0].table != upstream.newest.table:
        raise behind(sink)
    _require_known(context, sink, upstream, found[0])
    require_newest(context, sink)
    require_topic(context, sink)


def begin(context: Context, sink: Sink) -> None:
    """Say where a new sink starts that wants nothing of what is there already (`snapshot = 'false'`): right here."""
    if sink.connector.snapshot:
        return
    with context.lease(sink.name):
        upstream = Upstream.of(context, sink)
        writer = open_sink(context, sink, None)
        if upstream is not None and writer.position() is None:
            writer.begin(replace(upstream.newest, skipped=upstream.newest.total, since=upstream.frontier))


def forget(context: Context, sink: Sink) -> None:
    """Forget the position; what is delivered stays."""
    with context.lease(sink.name):
        open_sink(context, sink, None).forget()
        storage = context.project.storage
        for file in (deployment_file(storage, sink.name), refusal_file(storage, sink.name)):
            StateFile(storage, file).remove()


def open_sink(context: Context, sink: Sink, notify: Callable[[Event], None] | None) -> SinkWriter:
    """The sink's connector; hold the sink's lease while it is used. Raises TG515 for a branch's sink whose place is not
    the branch's."""
    context.borrowed.refuse(sink)
    options = sink.connector
    if isinstance(options, FilesystemSinkOptions):
        return FilesystemSink(context, sink)
    if isinstance(options, IcebergSinkOptions):
        return IcebergSink(context, sink)
    if isinstance(options, KafkaSinkOptions):
        return KafkaSink(context, sink)
    assert isinstance(options, ConsoleSinkOptions)
    return ConsoleSink(context, sink, notify or _print)


def _position(writer: SinkWriter, upstream: Upstream) -> Position:
    """Where the sink stands. One that never began starts before the first commit: what is there already was asked for,
    or `begin` came before there was anything."""
    found = writer.position()
    if found is None:
        found = Position(upstream.newest.table, 0)
        writer.begin(found)
    return found


def _require_known(context: Context, sink: Sink, upstream: Upstream, position: Position) -> None:
    """TG542 for a sink that has delivered commits which its view or log does not have, or was refused so: commits that
    its view has made since expire, and a sink that is behind is not told from this one then."""
    if upstream.has_commit(position):
        return
    name, storage = upstream.source.name, context.project.storage
    if is_elsewhere(storage, sink.name, position, upstream.known_commits()):
        StateFile(storage, refusal_file(storage, sink.name)).write(asdict(position))
        raise TidegateError(
            "TG542",
            f'"{sink.name}" has delivered up to commit {position.tick} of "{name}", which does not have this commit: '
            f"{name} and {sink.place} are of different times, for example because only one of them was restored from "
            "a backup. Rows would be delivered twice, or be missing",
            hint=f"restore both from the same backup; or DROP SINK {sink.name} and CREATE it again with a new place",
        )


def _delivered(
    context: Context, sink: Sink, writer: SinkWriter, upstream: Upstream, position: Position
) -> Delivered:
    """All that there is, after the sink has gone over to the current version of its view."""
    position, done = follow(context, sink, writer, upstream, position)
    return done.plus(writer.deliver(upstream, position)) if upstream.has_news(position) else done


def _record(context: Context, sink: Sink) -> None:
    """Keep what the sink delivers and where to, for `check` and `status` to compare with what its file says later."""
    storage = context.project.storage
    file = StateFile(storage, deployment_file(storage, sink.name))
    if last_deployment(storage, sink.name) != deployment(sink):
        file.write(deployment(sink))
    else:
        # A writer may have broken off for whom the file was missing, or who had another definition.
        file.tidy()


def _print(event: Event) -> None:
    """Without anybody who listens, a console sink's rows go to standard output."""
    if isinstance(event, RowsDelivered):
        print(event.text())
