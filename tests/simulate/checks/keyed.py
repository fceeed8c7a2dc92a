"""What a table WITH TTL holds, of its log: its decisions batch by batch, its rows, and the rows that views count (T1 to
T4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tests.oracles.oracle import Row
from tests.oracles.tables import Change, Table
from tests.simulate.checks.wrong import Judged, Place, Wrong
from tests.simulate.scripts.pipelines import DELAY, seconds

if TYPE_CHECKING:
    from tidegate.session.session import Session

Marks = Mapping[int, tuple[dict[str, int | None], int | None]]


def replay(log: Mapping[Place, Judged], marks: Marks, keys: Mapping[int, str], hidden: bool) -> Table:
    """The table after all batches of a log. `marks`: by epoch, the watermarks of the partitions and the published one;
    `keys`: by the id of a row; `hidden`: whether a file was ever missing until later. Raises Wrong where a decision or
    a watermark is not by the rules."""
    table, gone = Table(DELAY), set[str]()
    for epoch in sorted({one.epoch for one in log.values()} | set(marks)):
        known, published = marks.get(epoch, ({}, None))
        gone -= {partition for (partition, _), one in log.items() if one.epoch == epoch}
        known = {name: watermark for name, watermark in known.items() if name not in gone}
        table.enumerate(sorted(known))
        before = len(table.late)
        rows = sorted((place, one) for place, one in log.items() if one.epoch == epoch)
        for (partition, offset), one in rows:
            if one.at is not None and one.id is not None:
                table.enumerate([partition])
                table.read(Change(partition, offset, keys[one.id], one.at, value=one.id))
        late = {(change.partition, change.offset) for change, _ in table.late[before:]}
        table.publish()
        for place, one in rows:
            right = "rejected" if one.at is None else "late" if place in late else "on_time"
            if one.outcome != right:
                raise Wrong(f"T1: change {place} at {one.at} is {one.outcome}, by the rules {right}")
        if known and table.wp != known:
            raise Wrong(f"W2: after epoch {epoch} the watermarks are {known}, by the rules {table.wp}")
        if table.g != published and hidden:
            # As for a source: a partition all of whose files are missing for a while has no rows, for who lists them.
            gone |= {name for name, watermark in known.items() if watermark is None}
            table.wp = {name: table.wp[name] for name in table.wp if name not in gone}
            if table.wp:
                table.publish()
        if table.g != published:
            raise Wrong(f"W6: after epoch {epoch} {published} was published, by the rules {table.g}")
    return table


def counted(table: Table, rows: list[Row]) -> list[Row]:
    """Those that views count."""
    history = table.history()
    return [row for row in rows if (row.partition, row.offset) in history]


def shown(table: Table, session: Session) -> None:
    """T2, T4: what SELECT shows. Raises Wrong."""
    found = Counter((row["k"], row["id"], seconds(row["ts"])) for row in session.table("events").collect())
    right = Counter((key, change.value, change.time) for key, change in table.rows().items())
    if found != right:
        raise Wrong(f"T4: the table shows {dict(found)}, by the rules {dict(right)}")
