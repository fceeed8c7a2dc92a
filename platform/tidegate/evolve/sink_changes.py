"""What a sink makes of a new version of the view that it delivers (E6), told from stored metadata, without a JVM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.evolve.kept_versions import spark_type
from tidegate.plan.versions import kept_versions, number_of, stored_as
from tidegate.sinks.sink_columns import misfits
from tidegate.sql.catalog.objects import View
from tidegate.sql.options.kafka_options import KafkaSinkOptions
from tidegate.sql.options.sink_connectors import IcebergSinkOptions
from tidegate.store.metadata import load_table
from tidegate.store.positions import read_position, sink_table
from tidegate.watermark import TimeKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegate.project import Storage
    from tidegate.sql.catalog.catalog import Catalog
    from tidegate.sql.catalog.objects import Sink
    from tidegate.store.metadata import CommittedTable

_NEW_PLACE = "give it a new place for all rows, or snapshot = 'false' for new rows"


@dataclass(frozen=True)
class SinkChange:
    """`what` becomes of a sink, in words; of one that is `refused`, why. `command`: what does it, or what to do."""

    what: str
    command: str
    refused: bool = False


def of_new_version(
    storage: Storage, catalog: Catalog, sink: Sink, table: CommittedTable | None, replaced: bool
) -> SinkChange | None:
    """`table`: of what it delivers; `replaced`: the results there are to be replaced. None if the sink has delivered
    what is there, and that stays."""
    found = read_position(storage, sink)
    view = catalog.get(sink.upstream)
    if found is None or table is None or not isinstance(view, View):
        # (Where it stands is not known of one that nobody has asked yet.)
        return _undecided(sink) if replaced and not _decided(sink) else None
    delivered = found[0].table
    if not replaced and delivered == table.uuid:
        return None
    number = number_of(delivered, table.uuid)
    if number is None:
        what = f'it has delivered from another table than "{sink.upstream}" is now (TG542)'
        return SinkChange(what, _NEW_PLACE, refused=True)
    if not _decided(sink):
        return _undecided(sink)
    if (why := _in_the_way(storage, sink, view, table, number, delivered == table.uuid)) is not None:
        return SinkChange(f"{why} (TG542)", _NEW_PLACE, refused=True)
    command = "tidegate apply" if replaced else f"tidegate run {sink.name}"
    return SinkChange(_way(sink), command)


def _decided(sink: Sink) -> bool:
    return sink.connector.upserts or sink.connector.on_change is not None


def _undecided(sink: Sink) -> SinkChange:
    what = f'it has delivered rows of "{sink.upstream}", whose results are replaced (TG542)'
    hint = "on_change = 'from_frontier' or 'replay' says what it delivers then; or "
    return SinkChange(what, hint + _NEW_PLACE, refused=True)


def _way(sink: Sink) -> str:
    name, options = sink.upstream, sink.connector
    if options.upserts:
        return f'of the new version of "{name}" it delivers what differs from the version before'
    if options.on_change == "from_frontier":
        return (
            f'of the new version of "{name}" it delivers what ends after the frontier of the version before'
        )
    if isinstance(options, IcebergSinkOptions):
        return f'all its rows are replaced by those of the new version of "{name}"'
    return f'it delivers all rows of the new version of "{name}", behind those of the version before'


def _in_the_way(
    storage: Storage, sink: Sink, view: View, table: CommittedTable, number: int, is_current: bool
) -> str | None:
    """Why the sink can't go on by itself; None if nothing tells. `number`: of the version that it has delivered;
    `is_current`: that is the current one."""
    options, said = sink.connector, table.properties
    if not is_current:
        kept = next((one for one in kept_versions(said) if one.number == number), None)
        if kept is None:
            needed = options.on_change == "from_frontier" or isinstance(options, KafkaSinkOptions)
            lost = f'version {number} of "{view.name}", which it has delivered, can\'t be read any more'
            return lost if needed and options.on_change != "replay" else None
        said = kept.definition
    if options.on_change == "from_frontier" and not _kind(said, view).same_ticks(view.kind):
        return f'the windows of "{view.name}" end in another type than before'
    if isinstance(options, KafkaSinkOptions) and options.upserts and is_current:
        there = {name for name, _ in table.columns}
        if gone := [name for name in options.key if name not in there]:
            return f'the version before of "{view.name}" has no {", ".join(gone)}'
    if isinstance(options, IcebergSinkOptions):
        return _other_types(storage, sink, view)
    return None


def _kind(said: Mapping[str, str], view: View) -> TimeKind:
    stored = said.get("tidegate.time-kind")
    return view.kind if stored is None else TimeKind[stored]


def _other_types(storage: Storage, sink: Sink, view: View) -> str | None:
    namespace, name = sink_table(storage, sink)
    target = load_table(storage, name, namespace)
    if target is None:
        return None
    stored = [(column, spark_type(kind)) for column, kind in target.columns]
    # (Of others the delivery tells.)
    wanted = [(c.name, stored_as(c.type)) for c in view.columns if c.type != "unknown" and "<" not in c.type]
    wrong = misfits(stored, wanted)
    return f"its table has other columns: {'; '.join(wrong)}" if wrong else None
