"""When members of a live group advance (`session/turns.py`): a source, a view over it and a sink of that, of which any
can fail at any turn, for as many ticks as it takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import pytest

from tidegate.session.turns import (
    Advance,
    Advanced,
    EndGroup,
    Failed,
    Listings,
    Pass,
    Reached,
    Retries,
    TryAgain,
    Turn,
    step,
)

RETRIES = Retries(first=1.0, longest=2.0, source_tries=3)
NAMES = ("source", "view", "sink")


@dataclass(frozen=True)
class World:
    """`rows`: what the source has read; `seen`: how many of them each member has taken in."""

    turns: tuple[Turn, ...]
    now: float = 0.0
    seen: tuple[int, ...] = (0, 0, 0)
    ended: bool = False

    def with_turn(self, number: int, turn: Turn, seen: int) -> World:
        turns, rows = list(self.turns), list(self.seen)
        turns[number], rows[number] = turn, seen
        return replace(self, turns=tuple(turns), seen=tuple(rows))


def begun() -> World:
    upstream = (frozenset[str](), frozenset(["source"]), frozenset(["view"]))
    return World(tuple(Turn(up, not up, RETRIES) for up in upstream))


def ticks(world: World, waiting_rows: int) -> Iterator[World]:
    """What a tick makes of a world, for everything that can fail in it."""
    for fails in product((None, True, False), repeat=3):
        after, moved, asked = world, set[str](), []
        for number, name in enumerate(NAMES):
            was = after.turns[number]
            turn, action = step(was, Reached(after.now, number == 0, moved))
            assert action == Advance() or isinstance(action, Pass)
            if isinstance(action, Pass):
                # Only who has nothing to do, or waits for its next try, is passed over.
                there = waiting_rows if number == 0 else after.seen[number - 1]
                assert after.seen[number] == there or (was.failures and after.now < was.retry_at)
                after = after.with_turn(number, turn, after.seen[number])
                continue
            assert not was.failures or after.now >= was.retry_at
            asked.append(number)
            curable = fails[number]
            if curable is not None:
                turn, action = step(turn, Failed(after.now, curable, True, 0.0))
                after = after.with_turn(number, turn, after.seen[number])
                assert turn.failures == was.failures + 1
                if isinstance(action, EndGroup):
                    assert number == 0
                    assert not curable or turn.failures == RETRIES.source_tries
                    after = replace(after, ended=True)
                    break
                assert number != 0 or (curable and turn.failures < RETRIES.source_tries)
                assert action == TryAgain(turn.failures, min(2.0, 2.0 ** (turn.failures - 1)))
                assert turn.retry_at == after.now + action.pause
                continue
            there = waiting_rows if number == 0 else after.seen[number - 1]
            if there != after.seen[number]:
                moved.add(name)
            turn, action = step(turn, Advanced(False))
            assert action == Pass(was.failures)
            assert (turn.failures, turn.due) == (0, False)
            after = after.with_turn(number, turn, there)
        # Nobody is held up by the failure of another one.
        if not after.ended:
            for number, turn in enumerate(world.turns):
                if number in asked or (turn.failures and world.now < turn.retry_at):
                    continue
                assert after.seen[number] == (waiting_rows if number == 0 else after.seen[number - 1])
        if all(fails[number] is None for number in range(3) if number not in asked):
            yield after


def test_R2_whatever_fails_the_others_go_on_and_nothing_is_forgotten() -> None:
    seen, waiting = {begun()}, [begun()]
    for depth in range(4):
        following = set()
        for world in waiting:
            for one in ticks(world, depth + 1):
                if not one.ended:
                    following |= {replace(one, now=one.now + 1.0)}
        waiting = list(following - seen)
        seen |= following
    assert len(seen) > 400
    # Once nothing fails any more everything is taken in, and soon.
    for world in waiting:
        for _ in range(4):
            world = next(ticks(world, 5))
            world = replace(world, now=world.now + 1.0)
        assert world.seen == (5, 5, 5)
        assert not any(turn.failures for turn in world.turns)


@pytest.mark.parametrize("source", [True, False])
def test_without_spark_the_group_ends_whoever_notices(source: bool) -> None:
    assert step(Turn(source=source), Failed(0.0, True, False, 0.0))[1] == EndGroup()


def test_what_others_insert_into_or_what_looks_outside_has_a_turn_without_a_commit() -> None:
    rested = Turn(frozenset(["t"]), due=False)
    assert step(rested, Reached(0.0, False, set()))[1] == Pass()
    assert step(rested, Reached(0.0, True, set()))[1] == Advance()
    assert step(rested, Reached(0.0, False, {"t"}))[1] == Advance()
    assert step(step(rested, Advanced(True))[0], Reached(0.0, False, set()))[1] == Advance()


def test_what_fails_after_it_has_advanced_is_due_again() -> None:
    """Where it is asked for what is wrong with its inputs, for one."""
    advanced, _ = step(Turn(), Advanced(False))
    failed, action = step(advanced, Failed(5.0, True, True, 0.0))
    assert action == TryAgain(1, 1.0)
    assert step(failed, Reached(5.9, False, set()))[1] == Pass()
    assert step(failed, Reached(6.0, False, set()))[1] == Advance()


def found_after(listings: Listings, tick: float, pause: float) -> tuple[float, int]:
    """How long one of three files has waited at most, each of which comes after the same pause, and how often their
    folder was listed. `tick`: seconds from one to the next."""
    now, listed, came, waited = listings.came, 0, listings.came + pause, [0.0]
    while len(waited) < 4:
        if listings.due(now):
            new = came <= now
            listings, listed = listings.after(now, new), listed + 1
            if new:
                waited.append(now - came)
                came = now + pause
        now += tick
    return max(waited), listed


@pytest.mark.parametrize(("interval", "longest"), [(0.2, 2.0), (2.0, 20.0), (5.0, 30.0), (60.0, 30.0)])
def test_a_quiet_folder_is_listed_less_often_and_a_new_file_waits_a_tenth_of_the_pause_before_it(
    interval: float, longest: float
) -> None:
    """Of every pause between two files, and with ticks that begin late."""
    assert Listings(interval, 100.0).due(100.0), "what has just been opened was not listed yet"
    for pause in (0.0, 1.0, 10.0, 59.0, 60.0, 600.0, 7200.0):
        for tick in (interval, 1.4 * interval):
            waited, listed = found_after(Listings(interval, 100.0), tick, pause)
            assert waited <= min(pause / 10, longest) + tick + 1e-6
            # Each pause is a tenth longer than the one before, up to the longest one.
            assert listed <= 3 * (30 + (pause + interval) / longest)


def test_each_tick_lists_a_folder_where_nobody_says_when_the_next_one_is() -> None:
    listings = Listings(0.0)
    for now in (0.0, 0.0, 500.0, 500.001, 1e6):
        assert listings.due(now)
        listings = listings.after(now, new=False)
