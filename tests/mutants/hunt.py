"""A planted fault is hunted: seeds of the simulator are played, in a copy of the repository, until one fails."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from tests.mutants.tree import Tree
from tests.simulate.patience import ENDED

#: Seeds within which a planted fault has to be found; and those that one process plays, since what it has opened stays
#: in its memory.
MOST, TOGETHER = 10_000, 100
#: Seconds for one process; a history that takes too long ends it earlier, and says this.
LIMIT, TIMEOUT = 7200.0, "Timeout ("


@dataclass(frozen=True)
class Hunt:
    """How a hunt ended. `seed`: the first that failed, after so many `seeds`; None: none did. `wrong`: which promise it
    broke. `problem`: why no more seeds were played, where that is no promise."""

    seed: int | None
    seeds: int
    wrong: str = ""
    problem: str = ""


def hunt(tree: Tree, first: int, most: int = MOST) -> Hunt:
    """Play at most so many seeds, from the first on."""
    for start in range(first, first + most, TOGETHER):
        found = _portion(tree, start, min(TOGETHER, first + most - start))
        if found.seed is not None or found.problem:
            return Hunt(found.seed, start - first + found.seeds, found.wrong, found.problem)
    return Hunt(None, most)


def _portion(tree: Tree, first: int, count: int) -> Hunt:
    code, printed = tree.call(["-m", "tests.simulate.until", str(first), str(count)], LIMIT)
    begun = re.findall(r"^seed (\d+)$", printed, re.MULTILINE)
    if begun and (code in (None, -ENDED) or (code != 0 and TIMEOUT in printed)):
        # What a fault keeps from coming to its end is found, too.
        return Hunt(int(begun[-1]), len(begun), "a history did not come to its end")
    said = re.search(r"^wrong (.+)$", printed, re.MULTILINE)
    if code != 0 or said is None:
        return Hunt(None, len(begun), problem="\n".join(printed.splitlines()[-30:]))
    wrong = json.loads(said[1])
    return Hunt(int(begun[-1]) if wrong else None, len(begun), wrong.splitlines()[0] if wrong else "")
