"""Steps back of a watermark (W9), as the commits of logs and views record them: pure functions over their summaries.

`ALTER … RESET WATERMARK TO` is one commit of a log, and stays on record in every later one (`RESETS`). Whoever
reads the log compares that record with what he has followed (`FOLLOWED_RESETS`), steps his own frontier back in a
commit of his own, and puts that step on record for his readers in turn. So a chain killed between two of these
commits goes on (R2)."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from tidegate.plan.recorded import Recorded
from tidegate.watermark import Mark, SessionMark

if TYPE_CHECKING:
    from tidegate.sql.catalog.objects import View

#: Keys of commits: the steps back of this table; by name of an input, the last step of it that was followed; what a
#: view had emitted beyond its frontier.
RESETS, FOLLOWED_RESETS, BEYOND = "tidegate.resets", "tidegate.resets-followed", "tidegate.beyond"
#: Steps that are kept one by one; older ones are kept as one that goes as far back as the furthest of them.
_KEPT = 20


@dataclass(frozen=True)
class Step:
    """One step back. `number` grows with time, over tables of the same name, too. `mark`: the watermark or frontier
    from then on; `opened`: of a view of sessions, where the earliest open one began then; `epoch`: of a log, its
    commit."""

    number: int
    mark: int
    opened: int | None = None
    epoch: int | None = None


@dataclass(frozen=True)
class Beyond(Recorded):
    """What a view had emitted beyond the frontier that it stepped back to, and has not closed again. `start`: the
    lowest frontier; `first`: no row that ends (of sessions and OVER: begins) before it is concerned; `upto`: nor
    one that ends after it. Ticks."""

    KEY = BEYOND

    start: int
    first: int
    upto: int


def steps(summary: Mapping[str, str]) -> list[Step]:
    """The steps back of a table, oldest first."""
    return [Step(**entry) for entry in json.loads(summary.get(RESETS) or "[]")]


def with_step(
    summary: Mapping[str, str], mark: int, opened: int | None = None, epoch: int | None = None
) -> str:
    """`RESETS` with one more step."""
    known = steps(summary)
    number = max(time.time_ns() // 1_000_000, known[-1].number + 1 if known else 0)
    known.append(Step(number, mark, opened, epoch))
    while len(known) > _KEPT:
        first, second = known[:2]
        opened = min((s.opened for s in (first, second) if s.opened is not None), default=None)
        known[:2] = [Step(second.number, min(first.mark, second.mark), opened, second.epoch)]
    return _text(known)


def until(summary: Mapping[str, str], epoch: int) -> str | None:
    """`RESETS` of a log as it stood after one of its commits; None where there was no step yet."""
    known = [step for step in steps(summary) if step.epoch is not None and step.epoch <= epoch]
    return _text(known) if known else None


def position(summary: Mapping[str, str], upto: int, number: int) -> tuple[int, int]:
    """Where somebody goes on who had come to `upto` in a view when its newest step back was `number` (0: none): below
    every step since, for what ended after it closes again. With it, the newest number."""
    known = steps(summary)
    marks = [step.mark for step in known if step.number > number]
    return min([upto, *marks]), known[-1].number if known else number


def not_followed(reader: Mapping[str, str], name: str, input: Mapping[str, str]) -> list[Step]:
    """The steps of an input called `name` that its reader has not followed; both by the summaries of their commits."""
    last = json.loads(reader.get(FOLLOWED_RESETS) or "{}").get(name, 0)
    return [step for step in steps(input) if step.number > last]


def followed(inputs: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """What a commit says that has taken in these inputs (summaries by name); nothing if none was ever reset."""
    found = {name: known[-1].number for name, summary in inputs.items() if (known := steps(summary))}
    return {FOLLOWED_RESETS: json.dumps(found, sort_keys=True)} if found else {}


def step_back(
    view: View,
    own: Mapping[str, str],
    inputs: Mapping[str, Mapping[str, str]],
    marks: Sequence[Mark],
) -> int | None:
    """The frontier that a view at `own` has to step back to because of its inputs' resets: what D derives from them
    (W9). None if there is no reset that it has not followed, or none that reaches below its frontier.

    `inputs`: summaries by name; `marks`: how far each of `View.inputs` is now.
    """
    if view.clock is None or own.get("tidegate.frontier") is None:
        return None
    lowered, pending = list(marks), False
    for k, entry in enumerate(view.inputs):
        back = [] if entry.lookup else not_followed(own, entry.name, inputs[entry.name])
        if back:
            pending = True
            lowered[k] = _lowered(marks[k], back)
    target = view.clock.at(*lowered) if pending else None
    return target if target is not None and target < int(own["tidegate.frontier"]) else None


def closes_again(summary: Mapping[str, str], frontier: int | None, reached: int | None) -> bool:
    """Whether rows that were emitted beyond the frontier, before a step back, can close now (`Reclosing`)."""
    beyond = Beyond.of(summary)
    return beyond is not None and frontier is not None and reached is not None and beyond.first <= reached


def _text(known: Sequence[Step]) -> str:
    return json.dumps([{k: v for k, v in asdict(s).items() if v is not None} for s in known])


def _lowered(mark: Mark, back: Sequence[Step]) -> Mark:
    lowest = min(step.mark for step in back)
    if not isinstance(mark, SessionMark):
        return lowest if mark is None else min(mark, lowest)
    starts = [s for s in (mark.earliest_open, *(step.opened for step in back)) if s is not None]
    frontier = lowest if mark.watermark is None else min(mark.watermark, lowest)
    return SessionMark(frontier, min(starts, default=None))
