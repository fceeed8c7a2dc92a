"""How far every sink is: rows delivered and waiting, and up to which commit of what it delivers."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.plan.versions import number_of
from tidegate.project.storage import Storage
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.lineage import reads_of
from tidegate.sql.catalog.objects import Relation, Sink, View
from tidegate.store.metadata import load_table
from tidegate.store.positions import KnownCommits, files_beyond, final_keys, is_elsewhere, read_position

#: Where a view's newest commit says how many amendments it has had (B2).
AMENDMENTS = "tidegate.amendments"


@dataclass(frozen=True)
class SinkStatus:
    """One sink. `delivers`: what it reads, over the query that it may have. `ran` is False before it began.

    `tick`: the last commit that is delivered, of `newest` commits (ticks of a view, epochs of a log); `behind`: how
    many there are in between. `delivered`: rows in all; `waiting`: final rows that are not delivered yet. `current`:
    nothing that is stored waits. `made_anew`: what it delivered from is gone, and another stands in its place (TG542);
    `goes_on`: it is an earlier version of its view that the sink has delivered from, and its next delivery goes on with
    the current one (E6); then `behind` and `waiting` are None. `delivered_at`: when the position last moved, ISO, UTC.
    `amendments_waiting`: amendments of what it delivers that it has not followed; None if it ignores them (B2).
    """

    name: str
    delivers: tuple[str, ...]
    connector: str
    place: str
    ran: bool
    tick: int | None
    newest: int | None
    behind: int | None
    delivered: int
    waiting: int | None
    current: bool
    made_anew: bool
    delivered_at: str | None
    amendments_waiting: int | None = None
    goes_on: bool = False


def sink_status(storage: Storage, sink: Sink, catalog: Catalog) -> SinkStatus:
    """Read from what its connector keeps, and from the newest commit of what it delivers."""
    upstream = catalog.get(sink.upstream)
    assert isinstance(upstream, Relation | View)
    table = load_table(storage, upstream.name)
    newest = total = behind = waiting = unfollowed = None
    amendments = 0
    if table is not None and table.snapshot_id is not None:
        newest, total = (table.integer(key) or 0 for key in final_keys(upstream))
        amendments = table.integer(AMENDMENTS) or 0
    found = read_position(storage, sink)
    position, moved = found or (None, None)
    known = None if table is None else KnownCommits.of_table(table, upstream)
    other = position is not None and table is not None and table.uuid != position.table
    goes_on = (
        other and position is not None and table is not None and _goes_on(sink, position.table, table.uuid)
    )
    if newest is not None and total is not None and not other:
        # What a sink that has not begun does not want, it says when it begins.
        wanted = sink.connector.snapshot
        behind = newest - (position.tick if position else 0) if position or wanted else None
        waiting = total - (position.total if position else 0) if position or wanted else None
        if sink.connector.upserts:
            # What it has yet to come to, it delivers as it is then.
            unfollowed = amendments - position.amendments if position and position.tick else 0
    return SinkStatus(
        name=sink.name,
        delivers=tuple(o.name for o in reads_of(catalog, sink)),
        connector=sink.connector.connector,
        place=sink.place,
        ran=position is not None,
        tick=position.tick if position else None,
        newest=newest,
        behind=behind,
        delivered=position.rows if position else 0,
        waiting=waiting,
        # (The run of one that does not fit to its table says so.)
        current=position is not None
        and behind == 0
        and not unfollowed
        and not is_elsewhere(storage, sink.name, position, known),
        made_anew=other and not goes_on,
        delivered_at=moved,
        amendments_waiting=unfollowed,
        goes_on=goes_on,
    )


def misplaced(storage: Storage, sink: Sink, catalog: Catalog) -> str | None:
    """What a sink has delivered that does not fit to what is stored, in words: its place and the tables are of
    different moments, as after a restore of one of them only. None if nothing is known to be wrong."""
    found, upstream = read_position(storage, sink), catalog.get(sink.upstream)
    assert isinstance(upstream, Relation | View)
    if found is None:
        return None
    position, _ = found
    table = load_table(storage, upstream.name)
    known = None if table is None else KnownCommits.of_table(table, upstream)
    if is_elsewhere(storage, sink.name, position, known):
        return (
            f"it has delivered up to commit {position.tick} of {upstream.name}, which does not have this commit: "
            f"{sink.place} and the tables are of different moments"
        )
    beyond = files_beyond(storage, sink)
    return None if beyond is None else f"{beyond} is of a delivery that its position does not know"


def _goes_on(sink: Sink, delivered: str, now: str) -> bool:
    """Whether a sink goes from one version of its view to another by itself. (What stands in the way of that in the
    rows themselves, its delivery says.)"""
    decided = sink.connector.upserts or sink.connector.on_change is not None
    return decided and number_of(delivered, now) is not None
