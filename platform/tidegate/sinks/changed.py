"""A view has a new version: what its sinks deliver of it (E6).

A sink first delivers the rest of the version that it has delivered until now, up to where the new one has taken its
place: the rows are kept under a tag of the view's table (E5). Then it goes on with the new one: an append-only sink
from that frontier on, or with all of it, as it says; one that upserts gets the differences. Between the two it has one
version or the other, and never rows of both for one window.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tidegate.errors import Problems, TidegateError
from tidegate.plan.versions import number_of, version_of
from tidegate.sinks.sink_writer import Delivered, ReplacingWriter, SinkWriter
from tidegate.sinks.upstream import Upstream
from tidegate.sql.catalog.objects import View
from tidegate.sql.options.kafka_options import KafkaSinkOptions
from tidegate.store.positions import Position

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.iceberg.tables import Tables
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import Sink


def follow(
    context: Context, sink: Sink, writer: SinkWriter, upstream: Upstream, position: Position
) -> tuple[Position, Delivered]:
    """Go over to the version of the view that is current; the position in it, and what was delivered. Each step can be
    done again. Raises TG542 if the sink does not say how, or if it can't be done."""
    done = Delivered(0)
    while position.table != upstream.newest.table:
        before = Upstream.of_version(context, sink, position.table)
        require_way(sink, position, upstream, before)
        if before is not None and before.has_news(position):
            done = done.plus(writer.deliver(before, position))
            position = _position(writer)
        start = _start(context.tables, sink, position, upstream, before, writer)
        if _replaces(sink, writer):
            assert isinstance(writer, ReplacingWriter)
            version = partial(Upstream.of_version, context, sink)
            done = done.plus(writer.replace(before, upstream, start, version))
        else:
            writer.go_on(start)
        position = _position(writer)
    return position, done


def require_way(sink: Sink, position: Position, upstream: Upstream, before: Upstream | None) -> None:
    """Raise TG542 unless the sink can go over from where it stands to the current version. `before`: the version that
    it has delivered; None: it can't be read any more."""
    if number_of(position.table, upstream.newest.table) is None:
        raise made_anew(sink)
    options = sink.connector
    if not options.upserts and options.on_change is None:
        raise undecided(sink)
    reads_before = isinstance(options, KafkaSinkOptions) and options.upserts
    if before is None and (reads_before or options.on_change == "from_frontier"):
        raise unreadable(sink)
    if before is None:
        return
    source, now = before.source, upstream.source
    assert isinstance(source, View)
    assert isinstance(now, View)
    if options.on_change == "from_frontier" and not source.kind.same_ticks(now.kind):
        why = "its windows end in another type than those of the version before, so no frontier tells which are new"
        raise _refused(sink, why, "on_change = 'replay' delivers all rows of the new version")
    if reads_before:
        assert isinstance(options, KafkaSinkOptions)
        gone = [name for name in options.key if source.column(name) is None]
        if gone:
            why = f"the version before had no {', '.join(gone)}, so the keys of its messages are not known"
            raise _refused(sink, why, f"DROP SINK {sink.name} and CREATE it again, with a new place")


def require_newest(context: Context, sink: Sink) -> None:
    """A sink goes over to another version only by its newest definition, which says what it delivers then. Raises TG506
    if the files have another one since this process read them."""
    now = replace(context.project, texts=None).catalog(Problems()).sinks.find(sink.name)
    if now is None or (now.connector, now.format) == (sink.connector, sink.format):
        return
    error = TidegateError(
        "TG506",
        f'the definition of "{sink.name}" has changed since this process read it, so the new version of '
        f'"{sink.upstream}" is not delivered by it',
        hint="start the command again: it reads the new definition; live mode: tidegate reload",
        location=sink.location,
    )
    # A reload makes it right.
    error.curable = True
    raise error


def behind(sink: Sink) -> TidegateError:
    """It has not gone over to the current version of its view, and the one that it has delivered is to be removed."""
    what = (
        f'"{sink.name}" has not gone over to the current version of "{sink.upstream}" yet, and needs the earlier '
        "version for that, which an erasure removes"
    )
    return TidegateError("TG542", what, hint=f"tidegate run {sink.name} first", location=sink.location)


def made_anew(sink: Sink) -> TidegateError:
    """What a sink delivers is not what it has delivered."""
    return TidegateError(
        "TG542",
        f'"{sink.upstream}" is not the table that "{sink.name}" has delivered from until now: it was recreated, or the '
        "definition of the sink has changed. Its rows would be delivered twice",
        hint=f"DROP SINK {sink.name} and CREATE it again, with a new place or with snapshot = 'false'",
        location=sink.location,
    )


def undecided(sink: Sink) -> TidegateError:
    """It is another version of the same view, and the sink does not say what it delivers of it."""
    hint = (
        "on_change = 'from_frontier' delivers what ends after the frontier of the version before, on_change = 'replay' "
        f"all rows; or DROP SINK {sink.name} and CREATE it again, with a new place"
    )
    return _refused(sink, "the sink only appends, and does not say what it delivers then", hint)


def unreadable(sink: Sink) -> TidegateError:
    """The version that it has delivered is not kept any more."""
    why = "the version that it has delivered can't be read any more, so it is not known what is missing"
    hint = f"DROP SINK {sink.name} and CREATE it again, with a new place or with snapshot = 'false'"
    return _refused(sink, why, hint)


def _refused(sink: Sink, why: str, hint: str) -> TidegateError:
    return TidegateError(
        "TG542",
        f'"{sink.name}" can\'t continue with the new version of "{sink.upstream}": {why}',
        hint=hint,
        location=sink.location,
    )


def _replaces(sink: Sink, writer: SinkWriter) -> bool:
    return sink.connector.upserts or (sink.connector.on_change == "replay" and writer.replaces)


def _position(writer: SinkWriter) -> Position:
    found = writer.position()
    assert found is not None
    return found


def _start(
    tables: Tables,
    sink: Sink,
    position: Position,
    upstream: Upstream,
    before: Upstream | None,
    writer: SinkWriter,
) -> Position:
    """Where a sink at `position` begins in the current version."""
    beyond = before.frontier if before is not None and sink.connector.on_change == "from_frontier" else None
    start = Position(upstream.newest.table, 0, since=position.since, beyond=beyond)
    left_out = 0
    if start.edge is not None:
        every = upstream.stored(tables, 0, upstream.newest.tick)
        left_out = every.count() - upstream.stored(tables, 0, upstream.newest.tick, edge=start.edge).count()
    delivered = 0 if _replaces(sink, writer) else position.rows
    return Position(start.table, 0, left_out, left_out - delivered, since=position.since, beyond=start.beyond)


@dataclass(frozen=True)
class VersionMessages:
    """What a Kafka sink sends where a new version takes the place of the one `before` (E6). `start`: the position in
    the new one before anything of it; `stood`: that in the other one; `pending`: which commits and amendments of the
    new one are sent."""

    upstream: Upstream
    before: Upstream
    start: Position
    stood: Position
    pending: Mapping[str, Any]

    @property
    def commit(self) -> str:
        """What the ids of the messages say in the place of a commit."""
        return f"v{version_of(self.start.table)}"

    def rows(self, tables: Tables) -> DataFrame:
        """Of the new version."""
        tick, amendments = self.pending["tick"], self.pending["amendments"]
        return self.upstream.stored(tables, 0, tick, amendments, self.start.edge)

    def rows_before(self, tables: Tables) -> DataFrame:
        """What was delivered of the version before."""
        stood = self.stood
        return self.before.stored(tables, 0, stood.tick, stood.amendments, stood.edge)
