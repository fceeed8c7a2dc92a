"""Tables WITH TTL in small worlds side by side (`groups.py`): a world has two keys and two partitions of its own. (Of
one key alone no row ever expires before it is changed.)"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from tests.oracles.tables import Change, Table
from tests.simulate.scripts.pipelines import DELAY, as_json, seconds
from tests.simulate.world.driver import World
from tests.simulate.world.outside import LOST, Chooser, Driver, Fault, Killed, Outside
from tests.small.crashes import Ends, Noting, Plays, played
from tests.small.groups import Published, cut
from tests.small.histories import PARTITIONS, History
from tests.small.judging import judged_once
from tests.small.left import Left, States
from tests.small.walk import Counted, WrongError

_SQL = """CREATE TABLE items (k INT, id INT, ts TIMESTAMP, p VARCHAR, PRIMARY KEY (k),
    WATERMARK FOR ts AS ts - INTERVAL '20 seconds' WITH TTL)
WITH (connector = 'filesystem', path = 'input', partition.columns = 'p', max_files_per_batch = '1')
FORMAT PLAIN ENCODE JSON;
CREATE MATERIALIZED VIEW counted AS SELECT k, id, ts FROM items EMIT ON WINDOW CLOSE;
"""
#: Seconds: where a change is judged, below the watermark, at it, and above.
SECONDS = (0, 15, 20, 35)

#: Rows of a table or a view: (key, id, time).
Shown = Counter[tuple[int, int, int]]


@dataclass(frozen=True)
class TableGroup:
    """Worlds of which each publishes the same watermarks by the rules of such a table."""

    published: Published
    worlds: tuple[History, ...]

    @property
    def backlog(self) -> bool:
        return self.worlds[0].backlog


def groups(histories: Iterable[History], batches: int) -> list[TableGroup]:
    """As `tests.small.groups.groups`."""
    found: dict[tuple[bool, Published], list[History]] = defaultdict(list)
    for history in histories:
        if history.stands_for:
            found[history.backlog, _published(history, batches)].append(history)
    return [TableGroup(cut(marks, worlds), tuple(worlds)) for (_, marks), worlds in found.items()]


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


# -- by the oracle ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Truth:
    """Of a group: the file of each batch, and what the table and the view show after it."""

    files: tuple[bytes, ...]
    shown: tuple[dict[str, Shown], ...]

    @classmethod
    def of(cls, group: TableGroup) -> Truth:
        tables = [Table(DELAY) for _ in group.worlds]
        ids: dict[tuple[int, str, int], int] = {}
        files, shown = [], []
        for batch, published in enumerate(group.published, 1):
            lines: list[str] = []
            right, emitted = Shown(), Shown()
            for world, (table, history) in enumerate(zip(tables, group.worlds, strict=True)):
                lines += _lines(world, history, batch, ids)
                _read(table, history, batch, world)
                if table.g != published:
                    raise AssertionError("worlds of a group publish the same watermarks")
                for change in table.rows().values():
                    right[change.key, ids[world, change.partition, change.offset], change.time] += 1
                emitted.update(_final(world, table, history, ids))
            files.append(("\n".join(lines) + "\n").encode())
            shown.append({"items": right, "counted": emitted})
        return cls(tuple(files), tuple(shown))


def _lines(world: int, history: History, batch: int, ids: dict[tuple[int, str, int], int]) -> Iterator[str]:
    """Of the file of a batch; each row gets the next id."""
    for number, partition, offset, time in history.rows():
        if number == batch:
            ids[world, partition, offset] = one = len(ids)
            row = {"k": _key(world, offset), "id": one, "p": f"{world}/{partition}", "ts": time}
            yield json.dumps(as_json(row))


def _final(
    world: int, table: Table, history: History, ids: dict[tuple[int, str, int], int]
) -> Iterator[tuple[int, int, int]]:
    """C4, of what the changes left: what a view has emitted (T3)."""
    times = {(partition, offset): time for _, partition, offset, time in history.rows()}
    for partition, offset in table.history():
        time = times[partition, offset]
        if time is not None and table.g is not None and time < table.g:
            yield _key(world, offset), ids[world, partition, offset], time


# -- played -------------------------------------------------------------------------------------------------------


class _Played:
    """A group whose files come one by one, each with a run and a second one by a new process; or all of them before the
    first run."""

    def __init__(self, group: TableGroup, truth: Truth, chooser: Chooser) -> None:
        self.outside = Outside(0, chooser)
        self.world = World(self.outside, _SQL, ("items",))
        self._truth = truth
        last = len(group.published)
        self.acts = [last] if group.backlog else list(range(1, last + 1))
        self._arriving = {last: range(1, last + 1)} if group.backlog else {act: (act,) for act in self.acts}

    def play(self, first: int, known: Callable[[int], bool]) -> None:
        """The acts from `first` on. `known`: asked after each act whether all that follows was played."""
        with self.outside.holds():
            for act in self.acts:
                if act >= first and self._done(act, known):
                    break

    def recover(self, act: int, known: Callable[[int], bool]) -> None:
        """The process of this act has ended: whoever comes next makes it good."""
        with self.outside.holds():
            self.outside.begin(act)
            is_known = self._made_good(act, known)
        if not is_known:
            self.play(act + 1, known)

    def _done(self, act: int, known: Callable[[int], bool]) -> bool:
        self.outside.begin(act)
        for batch in self._arriving[act]:
            path = f"{self.world.root}/input/{batch:03d}.json"
            self.world.store.put(path, self._truth.files[batch - 1])
            self.outside.pass_time(10)
        self._run(armed=True)
        return self._made_good(act, known)

    def _made_good(self, act: int, known: Callable[[int], bool]) -> bool:
        self._run(armed=False)
        self._look(act)
        return known(act)

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
        with self.outside.looking():
            session = self.world.open()
            try:
                for name, truth in self._truth.shown[batch - 1].items():
                    rows = session.table(name).select("k", "id", "ts").collect()
                    shown = Shown((row[0], row[1], seconds(row[2])) for row in rows)
                    if shown != truth:
                        extra, missing = list(shown - truth)[:3], list(truth - shown)[:3]
                        raise WrongError(
                            f"T2, T4: {name} after batch {batch}: too much {extra}, too little {missing}"
                        )
            finally:
                session.close()


class _Crashes:
    """As that of `tests.small.groups`; here each act ends with a run that makes everything good."""

    def __init__(self, group: TableGroup) -> None:
        self._group, self._truth = group, Truth.of(group)
        self._states = States()
        self.ends = Ends(self._states)
        #: What there was before each act; the states after it that histories have come to.
        self._begun: dict[int, Left] = {}
        self._known: set[tuple[int, Hashable]] = set()

    def play(self) -> None:
        """Without a fault."""
        noting = Noting(self.ends, lambda: play.world, lambda: Left.of(play.world))
        play = _Played(self._group, self._truth, noting)
        following = dict(zip(play.acts, play.acts[1:], strict=False))
        self._begun[play.acts[0]] = Left.of(play.world)

        def after(act: int) -> bool:
            noting.ended(act)
            self._is_known(play, act)
            if act in following:
                self._begun[following[act]] = Left.of(play.world)
            return False

        play.play(play.acts[0], after)

    def plays(self) -> Plays:
        """What is left to be played, and of how many faults each is."""
        ended: Plays = [
            (len(end.faults), partial(self._ended, end.left, end.act)) for end in self.ends.distinct()
        ]
        lost: Plays = [(1, partial(self._lost, replace(fault, kind=LOST))) for fault in self.ends.commits]
        return [*ended, *lost]

    def _ended(self, left: Left, act: int) -> None:
        play = _Played(self._group, self._truth, Chooser(Random(0), []))
        left.put_into(play.world)
        play.recover(act, partial(self._is_known, play))

    def _lost(self, fault: Fault) -> None:
        play = _Played(self._group, self._truth, Chooser(Random(0), [fault]))
        self._begun[fault.act].put_into(play.world)
        play.play(fault.act, partial(self._is_known, play))
        assert play.outside.met == [fault], f"nothing like {fault} has happened"

    def _is_known(self, play: _Played, act: int) -> bool:
        """Whether a history has come to this state after this act; from now on, it has."""
        key = act, self._states.key(play.world)
        known = key in self._known
        self._known.add(key)
        return known

    @property
    def states(self) -> int:
        """How many there are that differ."""
        return len(self._known) + len(self.ends.distinct())


def walked(group: TableGroup, most: int | None = None) -> Counted:
    """Play a group without a crash, and with each. `most`: so many of them."""
    crashes = _Crashes(group)
    with judged_once():
        crashes.play()
        return played(crashes.plays(), group.worlds, lambda: crashes.states, most)
