"""The protocol of commits as a pure function (R1, R2): what a writer does next, after what it has been answered.

No table, no clock and no Spark here: `drive` is the loop that does what `step` says, with whatever looks at the table
and commits to it. Whoever wants all orders of events (a test, a simulator) calls `step` itself. What the fence is, is
the table's business: an attempt on a base on which somebody has committed since is answered with a `Conflict`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NoReturn

#: What a view's summary says of its amendments (B2): how many there were, when the last one was, by how many rows they
#: have changed the view, which late rows are absorbed, and which amendments of the views below it has followed.
AMENDMENTS, AMENDED_AT, AMENDED_GROUPS, ABSORBED, FOLLOWED = AMENDMENT = (
    "tidegate.amendments",
    "tidegate.amended-at",
    "tidegate.amended-groups",
    "tidegate.absorbed",
    "tidegate.followed",
)


#: In the summary of every commit of a table whose results were swapped: of which swap they are (E5). Nothing that was
#: made of a table's results before a swap is committed after it.
LIFE = "tidegate.life"


@dataclass(frozen=True)
class Snapshot:
    """The current snapshot of a table: its id (None: nothing committed yet), and what tidegate said last.

    `summary` is that of the newest snapshot by tidegate: maintenance by others (compaction, a manual DELETE) comes
    on top of it and does not make us forget where we stand. `commit`: the id of that one.
    """

    id: int | None
    summary: dict[str, str]
    commit: int | None = None

    def integer(self, key: str) -> int | None:
        """A number of the summary, or None where it is absent."""
        text = self.summary.get(key)
        return None if text is None else int(text)

    @property
    def facts(self) -> dict[str, str]:
        """What tidegate said, without what Iceberg counts."""
        return {key: value for key, value in self.summary.items() if key.startswith("tidegate.")}


def same_life(one: Snapshot, other: Snapshot) -> bool:
    """Whether no swap of the table's results lies between them."""
    return one.summary.get(LIFE) == other.summary.get(LIFE)


def continued(base: Snapshot, summary: Mapping[str, str]) -> dict[str, str]:
    """What a commit on `base` says that is to say `summary`: of which life it is, too. A commit that says nothing stays
    one by others."""
    life = {LIFE: base.summary[LIFE]} if summary and LIFE in base.summary else {}
    return life | dict(summary)


#: Of a table to which nothing was committed.
NOTHING = Snapshot(None, {})


def standing(newest: int | None, facts: Callable[[int], tuple[Mapping[str, str], int | None]]) -> Snapshot:
    """What tidegate said last in the snapshots up to the newest one. `facts`: of a snapshot, by its id, the summary
    and the parent; of one that has expired nothing."""
    snapshot = newest
    while snapshot is not None:
        summary, parent = facts(snapshot)
        if any(key.startswith("tidegate.") for key in summary):
            return Snapshot(newest, dict(summary), snapshot)
        snapshot = parent
    return Snapshot(newest, {})


def going_on(base: Snapshot, now: Snapshot) -> Snapshot:
    """`base` with what others did on top of it that tidegate's state does not depend on (compaction, expired snapshots,
    amendments of windows that are closed anyway). If tidegate itself has committed since, `base` as it is: nothing can
    be committed on it (TG502). `now`: the current snapshot."""
    if not same_life(base, now):
        return base
    facts = {k: v for k, v in base.facts.items() if k not in AMENDMENT}
    return now if facts and facts.items() <= now.summary.items() else base


def stands(base: Snapshot, now: Snapshot) -> bool:
    """Whether tidegate has committed nothing since `base`: what there is on top of it is by others, or an upkeep that
    says what the commit before it said."""
    if now.commit == base.commit:
        return True
    return bool(base.facts) and same_life(base, now) and base.facts.items() <= now.summary.items()


# -- what a writer is told, and what it does -------------------------------------------------------------------


@dataclass(frozen=True)
class Begin:
    """The writer has something to commit."""


@dataclass(frozen=True)
class Stored:
    """The attempt was committed, and gave this."""

    result: Any


@dataclass(frozen=True)
class Conflict:
    """The attempt was refused: others have committed since its base. `commit`: the id that its snapshot has if it was
    committed all the same, since a catalog's client may have asked twice. `stood`: what the writer has got to
    meanwhile, by commits on the way."""

    error: Exception | None = field(default=None, compare=False)
    commit: int | None = None
    stood: Snapshot | None = None


@dataclass(frozen=True)
class AnswerLost:
    """Nobody knows whether the attempt was committed; its snapshot would have the id `commit` (None: not even that is
    known)."""

    error: Exception = field(compare=False)
    commit: int | None = None


@dataclass(frozen=True)
class Found:
    """The table was read: its current snapshot, and whether it has the snapshot that was looked for."""

    now: Snapshot
    own: bool = False


@dataclass(frozen=True)
class Look:
    """Read the table anew, and look for a snapshot."""

    commit: int | None = None


@dataclass(frozen=True)
class Attempt:
    """Commit on top of `base`, and of nothing else."""

    base: Snapshot


@dataclass(frozen=True)
class Done:
    """It is committed, once."""

    value: Any

    def result(self) -> Any:
        """What the attempt gave."""
        return self.value


@dataclass(frozen=True)
class GiveUp:
    """Nothing more is tried. `why`: others have committed what this writer's work depends on; as often as it may try
    others were faster; or nobody can tell what became of the attempt. `error`: what the last attempt ended with."""

    why: Literal["overtaken", "too often", "unknown"]
    error: Exception | None = field(default=None, compare=False)

    def result(self) -> NoReturn:
        """Raises what the last attempt ended with."""
        raise self.error or AssertionError("others have committed before the first attempt")


Event = Begin | Stored | Conflict | AnswerLost | Found
Action = Look | Attempt | Done | GiveUp


@dataclass(frozen=True)
class Commit:
    """Something that one writer commits. `stood`: the snapshot that it was made of. `needs`: what must be as it stood,
    so that it can be put on top of what others have committed: tidegate's state, the amendments of a view, everything,
    or nothing.
    `tries`: how often it may be attempted. `looks`: whether it looks for others' commits before the first attempt.
    `doubt`: the answer that was no success."""

    stood: Snapshot = NOTHING
    needs: Literal["state", "amendments", "everything", "nothing"] = "state"
    tries: int = 1
    looks: bool = False
    doubt: Conflict | AnswerLost | None = None


def step(commit: Commit, event: Event) -> tuple[Commit, Action]:
    """The protocol. An attempt whose answer was lost is not made again: whoever opens the table next sees what became
    of it (R1)."""
    match event:
        case Begin():
            return commit, Look() if commit.looks else Attempt(commit.stood)
        case Stored(result):
            return commit, Done(result)
        case Conflict(_, own, stood):
            return replace(commit, doubt=event, stood=stood or commit.stood, tries=commit.tries - 1), Look(
                own
            )
        case AnswerLost(_, own):
            return replace(commit, doubt=event), Look(own)
        case Found(now, own):
            return commit, _after_look(commit, now, own)


def _after_look(commit: Commit, now: Snapshot, own: bool) -> Action:
    doubt = commit.doubt
    error = None if doubt is None else doubt.error
    if doubt is not None and doubt.commit is not None and own:
        return Done(doubt.commit)
    base = _base(commit, now)
    if isinstance(doubt, AnswerLost):
        # What others seem to have committed may be the attempt itself, if it can't be told apart.
        return GiveUp("overtaken" if base is None and doubt.commit is not None else "unknown", error)
    if base is None and (doubt is not None or commit.needs != "state"):
        return GiveUp("overtaken", error)
    if commit.tries <= 0:
        return GiveUp("too often", error)
    # On a state that is another's by now the first attempt is refused by the fence.
    return Attempt(base or commit.stood)


def _base(commit: Commit, now: Snapshot) -> Snapshot | None:
    """What the next attempt is made on; None if others have committed what it depends on."""
    if commit.needs == "nothing" or now.id == commit.stood.id:
        return now
    if commit.needs == "everything":
        return None
    if commit.needs == "amendments":
        if not same_life(now, commit.stood):
            return None
        return now if now.integer(AMENDMENTS) == commit.stood.integer(AMENDMENTS) else None
    base = going_on(commit.stood, now)
    return None if base is commit.stood else base


def drive(
    commit: Commit,
    look: Callable[[int | None], Found],
    attempt: Callable[[Snapshot], Stored | Conflict | AnswerLost],
) -> Done | GiveUp:
    """Do what `step` says until it is done or given up. `look`: for a snapshot with this id, if there is one."""
    event: Event = Begin()
    while True:
        commit, action = step(commit, event)
        match action:
            case Look(own):
                event = _looked(commit, look, own)
            case Attempt(base):
                event = attempt(base)
            case Done() | GiveUp():
                return action


def _looked(commit: Commit, look: Callable[[int | None], Found], own: int | None) -> Found:
    try:
        return look(own)
    except Exception as error:
        if isinstance(commit.doubt, AnswerLost):
            # What the writer has to hear is that nobody knows what became of its attempt.
            raise commit.doubt.error from error
        raise
