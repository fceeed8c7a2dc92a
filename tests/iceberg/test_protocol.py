"""R1, R2: the protocol of commits (`iceberg/protocol.py`) in every order of events of a small world.

A table, two writers, and upkeep by somebody else. Every look and every attempt is a step of its own, so another writer
can come between any two; an attempt's answer may be lost, whether it was committed, was not, or is committed later; a
catalog's client may ask twice and be refused by its own commit; a writer may end at any point, and starts again. The
fence is the table's: what is not based on the newest snapshot is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from tests.support.worlds import every_world
from tidegate.iceberg.protocol import (
    AMENDMENTS,
    NOTHING,
    Action,
    AnswerLost,
    Attempt,
    Begin,
    Commit,
    Conflict,
    Done,
    Event,
    Found,
    GiveUp,
    Look,
    Snapshot,
    Stored,
    drive,
    standing,
    step,
)

EPOCH = "tidegate.epoch"


@dataclass(frozen=True)
class Kept:
    """A snapshot of the table. `by`: the number of its writer; None: upkeep."""

    id: int
    parent: int | None
    summary: dict[str, str]
    by: int | None


@dataclass(frozen=True)
class Writer:
    """`kind`: "log" adds the epochs up to `goal`, "tick" the same as a view does, "amend" takes a late row in, once.
    `stood`: None until it has opened the table. `asked`: the ids of all attempts at what it is committing."""

    kind: str
    goal: int
    stood: Snapshot | None = None
    commit: Commit | None = None
    action: Action | None = None
    asked: tuple[int, ...] = ()


@dataclass(frozen=True)
class World:
    """`faults`: how many may still happen; `upkeep`: how often somebody else may still commit; `late`: an attempt that
    may be committed later."""

    writers: tuple[Writer, ...]
    faults: int
    upkeep: int
    table: tuple[Kept, ...] = ()
    late: tuple[Kept, ...] = ()
    ids: int = 0

    def now(self, newest: int | None = None) -> Snapshot:
        kept = {one.id: one for one in self.table}
        newest = newest or (self.table[-1].id if self.table else None)
        return standing(newest, lambda id: (kept[id].summary, kept[id].parent))

    def with_writer(self, number: int, writer: Writer) -> World:
        writers = list(self.writers)
        writers[number] = writer
        return replace(self, writers=tuple(writers))

    def landed(self, kept: Kept) -> World:
        assert kept.parent == self.now().id, "the fence is the table's"
        return replace(self, table=(*self.table, kept))


def moves(world: World) -> Iterator[World]:
    """Every world that one step of anybody makes of this one."""
    for number, writer in enumerate(world.writers):
        if writer.stood is not None and world.faults:
            ended = Writer(writer.kind, writer.goal)
            yield replace(world.with_writer(number, ended), faults=world.faults - 1)
        yield from _of_writer(world, number, writer)
    if world.upkeep and world.table:
        kept = Kept(world.ids + 1, world.now().id, {"operation": "replace"}, None)
        yield replace(world.landed(kept), upkeep=world.upkeep - 1, ids=kept.id)
    for one in world.late:
        left = replace(world, late=tuple(o for o in world.late if o is not one))
        yield left.landed(one) if one.parent == world.now().id else left


def _of_writer(world: World, number: int, writer: Writer) -> Iterator[World]:
    action, stood = writer.action, writer.stood
    if stood is None:
        yield world.with_writer(number, replace(writer, stood=world.now()))
    elif writer.commit is None or action is None:
        if not _is_done(writer, stood):
            yield _told(world, number, replace(writer, commit=_begun(writer, stood)), Begin())
    elif isinstance(action, Look):
        own = any(one.id == action.commit for one in world.table)
        yield _told(world, number, writer, Found(world.now(), own))
    elif isinstance(action, Attempt):
        yield from _attempts(world, number, writer, action.base)
    elif isinstance(action, Done):
        _stands(world, writer, action)
        done = replace(writer, stood=world.now(action.value), commit=None, action=None, asked=())
        yield world.with_writer(number, done)
    else:
        _is_not_there(world, writer, action)
        yield world.with_writer(number, Writer(writer.kind, writer.goal))


def _begun(writer: Writer, stood: Snapshot) -> Commit:
    """As the log, a view and an amendment of one begin a commit."""
    if writer.kind == "amend":
        return Commit(stood, "amendments", tries=2, looks=True)
    return Commit(stood, tries=1 if writer.kind == "log" else 2, looks=True)


def _is_done(writer: Writer, stood: Snapshot) -> bool:
    return (stood.integer(AMENDMENTS if writer.kind == "amend" else EPOCH) or 0) >= writer.goal


def _summary(writer: Writer, base: Snapshot) -> dict[str, str]:
    """What the writer's commit says: it was made of what stood when the writer began, or took another look."""
    assert writer.commit is not None
    facts = {k: v for k, v in base.summary.items() if k.startswith("tidegate.")}
    if writer.kind == "amend":
        return facts | {AMENDMENTS: str((base.integer(AMENDMENTS) or 0) + 1)}
    stood = writer.commit.stood if writer.kind == "log" else base
    return facts | {EPOCH: str((stood.integer(EPOCH) or 0) + 1)}


def _attempts(world: World, number: int, writer: Writer, base: Snapshot) -> Iterator[World]:
    kept = Kept(world.ids + 1, base.id, _summary(writer, base), number)
    world = replace(world, ids=kept.id)
    writer = replace(writer, asked=(*writer.asked, kept.id))
    lost = AnswerLost(ConnectionError("no answer"), kept.id)
    faulty = replace(world, faults=world.faults - 1)
    if base.id == world.now().id:
        yield _told(world.landed(kept), number, writer, Stored(kept.id))
        if world.faults:
            yield _told(faulty.landed(kept), number, writer, lost)
            yield _told(faulty.landed(kept), number, writer, Conflict(None, kept.id))
            yield _told(replace(faulty, late=(*world.late, kept)), number, writer, lost)
    else:
        yield _told(world, number, writer, Conflict(None, kept.id))
    if world.faults:
        yield _told(faulty, number, writer, lost)


def _told(world: World, number: int, writer: Writer, event: Event) -> World:
    assert writer.commit is not None
    commit, action = step(writer.commit, event)
    return world.with_writer(number, replace(writer, commit=commit, action=action))


def _stands(world: World, writer: Writer, done: Done) -> None:
    """What a writer takes for committed is committed, by its own attempt."""
    assert done.value in writer.asked
    assert any(one.id == done.value for one in world.table)


def _is_not_there(world: World, writer: Writer, end: GiveUp) -> None:
    """Who is told that nothing was stored has stored nothing, and will not."""
    if end.why != "unknown":
        assert not any(one.id in writer.asked for one in world.table), end
        now = world.now().id
        assert not any(one.id in writer.asked and one.parent == now for one in world.late), end


def explored(first: World) -> tuple[int, list[World]]:
    """How many worlds follow from one, and those in which nothing is left to do. In each of them every epoch is there
    once, in order, and so is the late row."""
    count, ends = 0, []
    for world, following in every_world(first, moves, repr):
        count += 1
        last: dict[str, int] = {EPOCH: 0, AMENDMENTS: 0}
        for one in world.table:
            if one.by is not None:
                key = AMENDMENTS if world.writers[one.by].kind == "amend" else EPOCH
                last[key] += 1
                assert {k: int(one.summary.get(k, 0)) for k in last} == last, world.table
        assert last[AMENDMENTS] <= 1
        if all(w.stood is not None and w.commit is None for w in world.writers) and not world.late:
            ends.append(world)
        assert following or world in ends
    return count, ends


@pytest.mark.parametrize(
    ("kinds", "goal", "faults", "upkeep", "least"),
    [
        (("log", "log"), 2, 1, 0, 1_000),
        (("log", "log"), 1, 2, 1, 1_000),
        (("tick", "amend"), 1, 1, 1, 1_000),
        (("tick", "tick"), 2, 1, 0, 1_000),
        (("amend", "amend"), 1, 2, 0, 1_000),
    ],
)
def test_R1_R2_in_every_order_each_commit_takes_effect_once(
    kinds: tuple[str, ...], goal: int, faults: int, upkeep: int, least: int
) -> None:
    """A writer that was overtaken never commits, whatever it believes; whoever is told of a commit has made it."""
    writers = tuple(Writer(kind, 1 if kind == "amend" else goal) for kind in kinds)
    count, ends = explored(World(writers, faults, upkeep))
    assert count >= least
    assert any(end.faults == 0 and not end.upkeep for end in ends)
    done = [end for end in ends if all(_is_done(w, end.now()) for w in end.writers)]
    assert done
    # Whoever has nothing left to do is right about it.
    for end in ends:
        for writer in end.writers:
            if writer.stood is not None and _is_done(writer, writer.stood):
                assert _is_done(writer, end.now())


# -- one decision each -----------------------------------------------------------------------------------------

FIRST, SECOND = Snapshot(1, {EPOCH: "1"}, 1), Snapshot(2, {EPOCH: "2"}, 2)
COMPACTED, AMENDED = replace(FIRST, id=3), Snapshot(4, {EPOCH: "1", AMENDMENTS: "1"}, 4)
ERROR = ValueError("refused")


def actions(commit: Commit, *events: Event) -> list[Action]:
    found = []
    for event in events:
        commit, action = step(commit, event)
        found.append(action)
    return found


def test_R2_what_others_commit_on_top_is_not_in_the_way_and_another_state_is() -> None:
    for now, base in ((FIRST, FIRST), (COMPACTED, COMPACTED), (AMENDED, AMENDED), (SECOND, FIRST)):
        assert actions(Commit(FIRST, looks=True), Begin(), Found(now)) == [Look(), Attempt(base)]
    refused = Conflict(ERROR)
    for now, last in ((AMENDED, Attempt(AMENDED)), (SECOND, GiveUp("overtaken"))):
        assert actions(Commit(FIRST, tries=2), Begin(), refused, Found(now)) == [Attempt(FIRST), Look(), last]


def test_R2_after_its_tries_it_gives_up_with_the_last_error() -> None:
    for tries in (1, 3):
        made: list[Snapshot] = []

        def attempt(base: Snapshot, made: list[Snapshot] = made) -> Conflict:
            made.append(base)
            return Conflict(ERROR)

        end = drive(Commit(FIRST, "nothing", tries), lambda _: Found(SECOND), attempt)
        assert (end, len(made)) == (GiveUp("too often"), tries)
        with pytest.raises(ValueError, match="refused"):
            end.result()


def test_R1_an_attempt_without_an_answer_is_looked_for_and_not_made_again() -> None:
    lost = AnswerLost(ERROR, 7)
    for found, last in (
        (Found(SECOND, own=True), Done(7)),
        (Found(FIRST), GiveUp("unknown")),
        (Found(COMPACTED), GiveUp("unknown")),
        (Found(SECOND), GiveUp("overtaken")),
    ):
        assert actions(Commit(FIRST, tries=3), Begin(), lost, found) == [Attempt(FIRST), Look(7), last]
    # The first commit of a table.
    assert actions(Commit(), Begin(), lost, Found(NOTHING))[-1] == GiveUp("unknown")
    # Where it can't be told apart from what others commit, nobody says that it was not stored.
    nameless = AnswerLost(ERROR)
    assert actions(Commit(FIRST, tries=3), Begin(), nameless, Found(SECOND))[-1] == GiveUp("unknown")


def test_R1_whoever_has_lost_an_answer_and_cannot_look_hears_of_the_answer() -> None:
    def look(_: int | None) -> Found:
        raise OSError("the catalog is away")

    for answer, kind in ((AnswerLost(ERROR, 7), type(ERROR)), (Conflict(ERROR, 7), OSError)):
        with pytest.raises(kind) as caught:
            drive(Commit(FIRST), look, lambda _, answer=answer: answer)  # type: ignore[misc]  # bound here
        assert (caught.value is ERROR) == isinstance(answer, AnswerLost)


def test_R2_a_conflict_with_its_own_commit_is_none() -> None:
    found = Found(SECOND, own=True)
    assert actions(Commit(FIRST), Begin(), Conflict(ERROR, 2), found)[-1] == Done(2)


def test_R2_what_was_committed_on_the_way_is_what_the_next_attempt_stands_on() -> None:
    commit, _ = step(Commit(FIRST, tries=2), Conflict(ERROR, stood=SECOND))
    assert step(commit, Found(replace(SECOND, id=5)))[1] == Attempt(replace(SECOND, id=5))


def test_R1_an_amendment_is_not_put_on_top_of_another_one() -> None:
    amendment = Commit(FIRST, "amendments", tries=2, looks=True)
    assert actions(amendment, Begin(), Found(AMENDED)) == [Look(), GiveUp("overtaken")]
    assert actions(amendment, Begin(), Found(SECOND)) == [Look(), Attempt(SECOND)]


def test_R2_a_delivery_is_published_on_the_very_snapshot_that_it_began_with() -> None:
    for now, why in ((FIRST, "too often"), (COMPACTED, "overtaken"), (SECOND, "overtaken")):
        end = actions(Commit(FIRST, "everything"), Begin(), Conflict(ERROR, 9), Found(now))[-1]
        assert isinstance(end, GiveUp)
        assert end.why == why
