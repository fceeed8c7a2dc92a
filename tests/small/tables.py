"""Tables WITH TTL in small worlds side by side (`groups.py`): a world has two keys and two partitions of its own. (Of
one key alone no row ever expires before it is changed.)"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random

from tests.oracles.tables import Change, Table
from tests.simulate.scripts.pipelines import DELAY, as_json, seconds
from tests.simulate.world.driver import World
from tests.simulate.world.outside import KILLED_AFTER, KILLED_BEFORE, Chooser, Driver, Fault, Killed, Outside
from tests.small.groups import Published
from tests.small.histories import PARTITIONS, History
from tests.small.walk import Counted, WrongError

_SQL = """CREATE TABLE items (k INT, id INT, ts TIMESTAMP, p VARCHAR, PRIMARY KEY (k),
    WATERMARK FOR ts AS ts - INTERVAL '20 seconds' WITH TTL)
WITH (connector = 'filesystem', path = 'input', partition.columns = 'p', max_files_per_batch = '1')
FORMAT PLAIN ENCODE JSON;
CREATE MATERIALIZED VIEW counted AS SELECT k, id, ts FROM items EMIT ON WINDOW CLOSE;
"""
#: Seconds: where a change is judged, below the watermark, at it, and above.
SECONDS = (0, 15, 20, 35)

Shown = Counter[tuple[int, int, int]]


@dataclass
class TableGroup:
    """Worlds of which each publishes the same watermarks by the rules of such a table."""

    published: Published
    worlds: list[History]


def groups(histories: Iterable[History], batches: int) -> list[TableGroup]:
    """Those that have rows in each batch."""
    found: dict[Published, list[History]] = defaultdict(list)
    for history in histories:
        # (Who comes later begins at G, and a backlog is one run: batches come one by one here.)
        if not history.backlog:
            found[_published(history, batches)].append(history)
    return [
        TableGroup(marks, worlds)
        for marks, worlds in found.items()
        if max(len(world.batches) for world in worlds) == batches
    ]


def _published(history: History, batches: int) -> Published:
    table, marks = Table(DELAY), []
    for batch in range(1, len(history.batches) + 1):
        _read(table, history, batch, 0)
        marks.append(table.g)
    return (*marks, *[marks[-1]] * (batches - len(marks)))


def _read(table: Table, history: History, batch: int, world: int) -> None:
    table.enumerate(p for p in PARTITIONS if history.begins().get(p, batch + 1) <= batch)
    for number, partition, offset, time in history.rows():
        if number == batch and time is not None:
            table.read(Change(partition, offset, _key(world, offset), time))
    table.publish()


def _key(world: int, offset: int) -> int:
    """A partition changes both keys in turn."""
    return 2 * world + offset % 2


class _Played:
    """A group whose files come one by one, each with a run; its end meets a run at most once."""

    def __init__(self, group: TableGroup, fault: Fault | None) -> None:
        self.passed: list[Fault] = []
        passed = self.passed

        class Noting(Chooser):
            def kind(self, act: int, name: str, number: int, most: int) -> str | None:
                passed.append(Fault(act, name, number, KILLED_BEFORE))
                return super().kind(act, name, number, most)

        self.outside = Outside(0, Noting(Random(0), [fault] if fault is not None else []))
        self.world = World(self.outside, _SQL, ("items",))
        self._group = group
        self._tables = [Table(DELAY) for _ in group.worlds]
        self._ids: dict[tuple[int, str, int], int] = {}

    def play(self) -> None:
        with self.outside.holds():
            for batch in range(1, len(self._group.published) + 1):
                self.outside.begin(batch)
                self._arrive(batch)
                self._run(armed=True)
                # Whoever comes next makes it good.
                self._run(armed=False)
                self._look(batch)

    def _arrive(self, batch: int) -> None:
        lines = []
        for world, history in enumerate(self._group.worlds):
            for number, partition, offset, time in history.rows():
                if number == batch:
                    place = _key(world, offset), partition, offset
                    self._ids[place] = len(self._ids)
                    row = {"k": place[0], "id": self._ids[place], "p": f"{world}/{partition}", "ts": time}
                    lines.append(json.dumps(as_json(row)))
        self.world.store.put(f"{self.world.root}/input/{batch:03d}.json", ("\n".join(lines) + "\n").encode())
        self.outside.pass_time(10)

    def _run(self, armed: bool) -> None:
        driver = Driver("driver", "a")
        self.world.drivers[:] = [driver]
        self.outside.driver, self.outside.armed = driver, armed
        session = None
        try:
            session = self.world.open()
            session.run()
        except Killed:
            pass
        finally:
            self.outside.armed = False
            if session is not None:
                session.close()

    def _look(self, batch: int) -> None:
        right, emitted = Shown(), Shown()
        for world, (table, history) in enumerate(zip(self._tables, self._group.worlds, strict=True)):
            _read(table, history, batch, world)
            if table.g != self._group.published[batch - 1]:
                raise AssertionError("worlds of a group publish the same watermarks")
            right.update((change.key, self._id(change), change.time) for change in table.rows().values())
            emitted.update(self._final(world, table, history))
        with self.outside.looking():
            session = self.world.open()
            try:
                for name, truth in (("items", right), ("counted", emitted)):
                    rows = session.table(name).select("k", "id", "ts").collect()
                    shown = Shown((row[0], row[1], seconds(row[2])) for row in rows)
                    if shown != truth:
                        extra, missing = list(shown - truth)[:3], list(truth - shown)[:3]
                        raise WrongError(
                            f"T2, T4: {name} after batch {batch}: too much {extra}, too little {missing}"
                        )
            finally:
                session.close()

    def _id(self, change: Change) -> int:
        return self._ids[change.key, change.partition, change.offset]

    def _final(self, world: int, table: Table, history: History) -> Iterator[tuple[int, int, int]]:
        """C4, of what the changes left: what a view has emitted (T3)."""
        times = {(partition, offset): time for _, partition, offset, time in history.rows()}
        for partition, offset in table.history():
            time = times[partition, offset]
            if time is not None and table.g is not None and time < table.g:
                key = _key(world, offset)
                yield key, self._ids[key, partition, offset], time


def walked(group: TableGroup, most: int | None = None) -> Counted:
    """Play a group without a crash, and with each. `most`: so many of them."""
    plain = _Played(group, None)
    plain.play()
    changing = ("write", "move", "delete", "create", "commit")
    faults = [one for one in plain.passed if one.step.partition(" ")[0] in changing]
    faults += [
        Fault(one.act, one.step, one.nth, KILLED_AFTER) for one in faults if one.step.startswith("commit")
    ]
    if most is not None and len(faults) > most:
        faults = Random(len(faults)).sample(faults, most)
    for fault in faults:
        _Played(group, fault).play()
    orders = sum(world.arrivals for world in group.worlds)
    return Counted(orders * (len(faults) + 1), len(group.worlds), len(faults) + 1)
