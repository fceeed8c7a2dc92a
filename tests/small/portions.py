"""All that `make worlds` plays, in portions with names."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import islice

from tests.small import agree, groups, tables
from tests.small.gate import Setting
from tests.small.histories import TIMES, History, histories
from tests.small.log_walk import LogWalk
from tests.small.walk import Counted, WrongError

KINDS = ("oracles", "log", "windows", "amend", "tables")
#: Histories that the oracles answer at once.
_AT_ONCE = 10_000
_VIEWS = ("tumbling", "hopping", "visits", "sorted")

Portion = tuple[str, Callable[[], Counted]]


def oracles_agree(worlds: list[agree.World], as_tables: bool) -> Counted:
    """Ask both oracles about these worlds."""
    started = time.process_time()
    if as_tables:
        one, other = agree.tables_by_sql(worlds), agree.tables_by_steps(worlds)
    else:
        one, other = agree.answers_by_sql(worlds), agree.answers_by_steps(worlds)
    if found := agree.differences(one, other, worlds):
        raise WrongError("\n".join(found))
    orders = sum(world.history.arrivals for world in worlds)
    return Counted(orders, len(worlds), len(worlds), round(time.process_time() - started, 1))


def with_deletes(history: History) -> Iterator[agree.World]:
    """The history of one key and of two, where nothing, the last row, and the first row of each partition deletes."""
    places = [(partition, offset) for _, partition, offset, _ in history.rows()]
    for keys in (1, 2):
        for deletes in ([], places[-1:], [place for place in places if place[1] == 0]):
            yield agree.World(history, deletes=frozenset(deletes), keys=keys)


def portions(kinds: Collection[str] = KINDS) -> Iterator[Portion]:
    """All that there is to play of these kinds, what is quick first."""
    for some, of in ((KINDS[:1], _of_oracles), (KINDS[1:2], _of_logs), (KINDS[2:], _of_groups)):
        if set(some) & set(kinds):
            yield from (portion for portion in of() if kind(portion[0]) in kinds)


def kind(name: str) -> str:
    """Of a portion."""
    return name.partition(" ")[0]


def _of_oracles() -> Iterator[Portion]:
    for strategy in agree.STRATEGIES:
        for number, chunk in enumerate(_chunks(histories(TIMES, 4))):
            worlds = partial(_worlds, chunk, strategy)
            yield f"oracles {strategy} {number}", partial(_asked, worlds, False)
    for number, chunk in enumerate(_chunks(histories((0, 1, 2), 4))):
        yield f"oracles tables {number}", partial(_asked, partial(_deleting, chunk), True)


def _worlds(chunk: list[History], strategy: str) -> list[agree.World]:
    return [agree.World(history, strategy) for history in chunk]


def _deleting(chunk: list[History]) -> list[agree.World]:
    return [world for history in chunk for world in with_deletes(history)]


def _asked(worlds: Callable[[], list[agree.World]], as_tables: bool) -> Counted:
    return oracles_agree(worlds(), as_tables)


def _chunks(given: Iterator[History]) -> Iterator[list[History]]:
    while chunk := list(islice(given, _AT_ONCE)):
        yield chunk


def _of_logs() -> Iterator[Portion]:
    settings = [Setting(strategy) for strategy in agree.STRATEGIES] + [Setting(expires=True)]
    for setting in settings:
        name = "table" if setting.expires else setting.strategy
        for times, most, late in (
            ((0, 1, 2), 2, True),
            (TIMES, 2, True),
            ((0, 1, 2), 3, False),
            (TIMES, 3, False),
        ):
            walk = LogWalk(setting, times, most, late)
            yield f"log {name} {most} rows of {len(times)} times{', late commits' if late else ''}", walk.walk
    for most, late in ((4, False), (3, True)):
        walk = LogWalk(Setting(), (0, 2), most, late)
        yield f"log delayed {most} rows of 2 times{', late commits' if late else ''}", walk.walk


def _of_groups() -> Iterator[Portion]:
    """Whole runs, with each crash: of three rows at most, then of four."""
    for least, most, times, changes in (
        (1, 3, groups.SECONDS, tables.SECONDS),
        (4, 4, (0, 15, 35), tables.SECONDS),
    ):
        name = f"{most} rows"
        for number, group in enumerate(groups.groups(histories(times, most, least), most)):
            yield f"windows {name} {number}", partial(_timed, groups.walked, group, _VIEWS)
            yield (
                f"amend {name} {number}",
                partial(_timed, groups.walked, group, ("tumbling", "hopping"), True),
            )
        for number, one in enumerate(tables.groups(histories(changes, most, least), most)):
            yield f"tables {name} {number}", partial(_timed, tables.walked, one)


def _timed(walk: Callable[..., Counted], *given: object) -> Counted:
    started = time.process_time()
    found = walk(*given)
    found.seconds = round(time.process_time() - started, 1)
    return found
