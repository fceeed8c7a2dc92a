"""The right to run live mode for a group, in a catalog that several machines share.

A lease is a table `<group>$live_<number>` without rows: that of the highest number counts, and making a table is the
one step of which every catalog lets a single process succeed. Its holder shows that it is alive by counting in a
property; who waits compares what it reads with its own clock, so that no clocks have to agree.
"""

from __future__ import annotations

import json
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.live.machine_lease import taken_by
from tidegate.project.catalog_failures import NO_ANSWER
from tidegate.project.owner import Owner, require_owner

if TYPE_CHECKING:
    from tidegate.iceberg.lease_tables import LeaseTables

#: Seconds between two signs of life; after how many without one a lease is nobody's; and between two looks at one.
BEAT, EXPIRY, _LOOKS = 3.0, 10.0, 1.5
_HOLDER, _COUNTS_IN, _COUNT = "tidegate.live.holder", "tidegate.live.counts-in", "tidegate.live.count"


@dataclass(frozen=True)
class Seen:
    """How far a holder had counted when it was looked at, since when it stands there, and when to look again."""

    count: str | None
    since: float
    again: float

    def expired(self, at: float) -> bool:
        """Whether the holder has shown no sign of life for so long that it is gone."""
        return at - self.since >= EXPIRY


def looked(seen: Seen | None, count: str | None, at: float) -> Seen:
    """With what is read now. Whoever has not looked for long does not know since when the holder stands there."""
    counts_on = seen is None or count != seen.count or at > seen.again + EXPIRY / 2
    return Seen(count, at if seen is None or counts_on else seen.since, at + _LOOKS)


class CatalogLeases:
    """Those of one supervisor. `lost` is told, in a thread, when another process has taken one of them over. `owner`:
    of the project, whose namespace it has to be (X3)."""

    def __init__(
        self,
        tables: LeaseTables,
        owner: Owner | None,
        lost: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        beat: float = BEAT,
    ) -> None:
        self._tables, self._owner, self._lost = tables, owner, lost
        self._clock, self._beat = clock, beat
        #: By holder: the leases of one that is gone are all nobody's at once. Who held each group's, as last read.
        self._seen: dict[str, Seen] = {}
        self._holders: dict[str, str] = {}
        #: The table of each group that is held. They are counted in the first one.
        self._held: dict[str, str] = {}
        self._count, self._lock = 0, threading.Lock()
        since = datetime.now(UTC).isoformat(timespec="seconds")
        who = {"pid": os.getpid(), "host": socket.gethostname(), "since": since, "id": uuid.uuid4().hex}
        self._who = json.dumps(who)
        self._thread: threading.Thread | None = None

    @contextmanager
    def lease(self, group: str) -> Iterator[None]:
        """See `standby.GroupLease`. Raises TG508, TG531 in another project's namespace, and one of NO_ANSWER if
        the catalog or its store gives none."""
        with self._lock:
            try:
                self._held[group] = self._take(group)
            except TidegateError as error:
                if error.code in NO_ANSWER:
                    # What was seen before that says nothing about the time after it.
                    self._seen.clear()
                raise
            if self._thread is None:
                self._thread = threading.Thread(target=self._live, daemon=True, name="tidegate-leases")
                self._thread.start()
        try:
            yield
        finally:
            with self._lock, suppress(TidegateError):
                self._tables.drop(self._held.pop(group))

    # -- one process takes it ----------------------------------------------------------------------------------

    def _take(self, group: str) -> str:
        """The table that makes a lease this process's."""
        holder, now = self._holders.get(group, ""), self._clock()
        seen = self._seen.get(holder)
        if seen is not None and now < seen.again and not seen.expired(now):
            raise taken_by(group, _words(holder))
        names = self._tables.names()
        self._require_own(names)
        found = _numbers(group, names)
        if found:
            holder, count = self._sign(_name(group, found[-1]))
            self._holders[group] = holder
            self._seen[holder] = seen = looked(self._seen.get(holder), count, now)
            # (Who has lost the table in which it counts has lost all, and ends.)
            if count is not None and not seen.expired(now):
                raise taken_by(group, _words(holder))
        number = found[-1] + 1 if found else 1
        table = _name(group, number)
        counts_in = next(iter(self._held.values()), table)
        if not self._tables.make(table, {_HOLDER: self._who, _COUNTS_IN: counts_in, _COUNT: "0"}):
            raise taken_by(group, "it has just begun")
        if _numbers(group, self._tables.names())[-1:] != [number]:
            # The one before was given back in this moment, and another process began to count before that.
            self._tables.drop(table)
            raise taken_by(group, "it has just begun")
        for old in found:
            self._tables.drop(_name(group, old))
        self._holders.pop(group, None)
        return table

    def _require_own(self, names: list[str]) -> None:
        """Raise TG531 where the namespace is another project's or environment's (X3)."""
        if self._owner is None or self._held:
            return
        for name in names:
            if (found := self._tables.owner(name)) is not None:
                require_owner(name, self._owner, found)
                return

    def _sign(self, table: str) -> tuple[str, str | None]:
        """The holder of a lease, and how far it has counted; None if it can't count any more."""
        properties = self._tables.properties(table)
        counts_in = properties.get(_COUNTS_IN, table)
        counted = properties if counts_in == table else self._tables.properties(counts_in)
        same = counted.get(_HOLDER) == properties.get(_HOLDER)
        return properties.get(_HOLDER, ""), counted.get(_COUNT) if same else None

    # -- and shows that it lives -------------------------------------------------------------------------------

    def _live(self) -> None:
        while True:
            time.sleep(self._beat)
            # A catalog that does not answer says nothing about the lease; it is asked again.
            with suppress(TidegateError):
                if (gone := self.show()) is not None:
                    self._lost(gone)
                    return

    def show(self) -> str | None:
        """Count on; the group whose lease another process has taken over."""
        with self._lock:
            if not self._held:
                return None
            names = self._tables.names()
            for group, table in self._held.items():
                if [_name(group, number) for number in _numbers(group, names)[-1:]] != [table]:
                    return group
            self._count += 1
            self._tables.change(next(iter(self._held.values())), {_COUNT: str(self._count)})
            return None


def _name(group: str, number: int) -> str:
    return f"{group}$live_{number}"


def _numbers(group: str, tables: list[str]) -> list[int]:
    """Of the tables of a lease, rising."""
    pattern = re.compile(re.escape(f"{group}$live_") + r"(\d+)")
    return sorted(int(match[1]) for name in tables if (match := pattern.fullmatch(name)))


def _words(holder: str) -> str:
    try:
        facts = json.loads(holder)
        return f"process {facts['pid']} on {facts['host']}, since {facts['since']}"
    except (ValueError, KeyError, TypeError):
        return "holder unknown"
