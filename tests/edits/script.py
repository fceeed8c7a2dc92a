"""What becomes of a project that is edited while it is live, as plain values: made up by a seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.simulate.scripts.changes import Change, Definition, Edits

#: The queries that views may have.
QUERIES = ("hopping", "measured", "sorted", "tumbling", "visits")
#: Parts of the live process tree that are killed, each as often as it stands here; "" for nothing.
_KILLED = ("", "", "all", "all", "worker", "jvm", "supervisor")
_STEPS = 5


@dataclass(frozen=True)
class Step:
    """An edit of the definitions, and what follows it. `killed`: what of the live process tree is killed, so many
    seconds (`after`) later. `applied`: whether somebody runs `tidegate apply`, which is killed after so many seconds
    (`apply_killed`, None: it is not), and run again; else live mode does by itself what it may. `back`: the view that
    then goes back to the version before, or ""."""

    edit: Change
    killed: str = ""
    after: float = 0.0
    applied: bool = False
    apply_killed: float | None = None
    back: str = ""


@dataclass(frozen=True)
class EditScript:
    """`views`: by name, each with the query of its own name at first."""

    seed: int
    views: tuple[str, ...]
    steps: tuple[Step, ...]

    def definitions(self) -> list[Definition]:
        """Those of the columns, one after the other."""
        found = [Definition()]
        for step in self.steps:
            if step.edit.what != "query":
                after = found[-1].after(step.edit, len(found))
                assert after is not None
                found.append(after)
        return found


def script_of(seed: int) -> EditScript:
    """The script that a seed stands for."""
    rng = Random(seed)
    views = tuple(sorted(rng.sample(QUERIES, 2)))
    edits = Edits(rng, ["amount"], views, QUERIES)
    return EditScript(seed, views, tuple(_step(rng, edits, views, number) for number in range(_STEPS)))


def _step(rng: Random, edits: Edits, views: tuple[str, ...], number: int) -> Step:
    edit = edits.revert() if number and rng.random() < 0.3 else edits.change()
    applied = rng.random() < 0.7
    return Step(
        edit,
        rng.choice(_KILLED),
        round(rng.uniform(0.0, 12.0), 1),
        applied,
        round(rng.uniform(2.0, 20.0), 1) if applied and rng.random() < 0.4 else None,
        rng.choice(views) if applied and rng.random() < 0.25 else "",
    )
