"""What the tables of a view say of its versions (E5): which one is current, which are kept, and how far the one is that
is built. Pure values; JSON in table properties."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from types import MappingProxyType
from typing import TYPE_CHECKING

from tidegate.plan.columns.changes import is_wider
from tidegate.plan.gaps import RETAINED_FROM, Edges, continuing
from tidegate.sql.dialect.types import display
from tidegate.watermark import TimeKind

if TYPE_CHECKING:
    from tidegate.sql.catalog.objects import View

#: Table property of a view: the number of its current version, from 1.
GENERATION = "tidegate.generation"
#: Table property of a view: its earlier versions that can be read, and the highest number that was given.
KEPT, HIGHEST = "tidegate.versions", "tidegate.version-highest"
#: Table property of a view that has gone back to an earlier version: the definition that its file had. (Of an earlier
#: release: its identity.)
LEFT = "tidegate.version-left"
#: Table property of a version that is built.
BUILDING = "tidegate.building"

#: Table property of a view: which file has the marks of windows that held erased rows (E9), and of which life they are.
MARKS = "tidegate.erased-windows"

#: Table property of a view that has kept results of an earlier version, because the rows behind them are gone (E5):
#: results that end before this tick are of the earlier version, all others of the present one.
VALID_FROM = "tidegate.valid-from"

#: Table property of a view: its current version is computed up to this time (ticks of its own) and no further, because
#: another version takes its place there (E5). "": there is no such time.
HELD_AT = "tidegate.held-at"
#: Table property of a view: until when (UTC) no tick of live mode goes beyond its current version, because another one
#: is about to take its place, and would always be a tick behind (E5). If its builder is killed, this passes by itself.
STANDS_UNTIL = "tidegate.stands-until"
#: What is further ahead was said by another clock, and does not hold.
STANDS_AT_MOST = timedelta(minutes=10)

#: Table properties that are about a version's results, and not about the table.
OF_RESULTS = (
    "tidegate.stale",
    RETAINED_FROM,
    "tidegate.retired",
    "tidegate.retired-rows",
    "tidegate.retention-checked",
    "tidegate.changes-seen",
    VALID_FROM,
    LEFT,
    HELD_AT,
    STANDS_UNTIL,
)
#: The first column of a view's table that is not the view's own (`iceberg.layout.view_columns`).
_SYSTEM = "_window_start"

#: What a version's table says of its rows, and what holds for whoever continues them.
_OF_ROWS = (VALID_FROM, RETAINED_FROM)
#: What a version's table says of its definition and of its windows: what another version says instead.
_OF_DEFINITION = (
    "tidegate.definition",
    "tidegate.identity",
    "tidegate.inputs",
    "tidegate.time-kind",
    "tidegate.time-column",
    "tidegate.changes-seen",
    *_OF_ROWS,
    MARKS,
)


#: What a view's commit says of each input that is a view, beside where it stood: which life of it was read.
LIFE_OF_INPUT = "life"


#: Table property of results of an earlier release, whose commits do not say which results below they were computed
#: from: a view below whose results were replaced since (`views/versions/build.py`).
STALE = "tidegate.stale"


def replaced_below(summary: Mapping[str, str], life: Callable[[str], str | None]) -> str | None:
    """The name of an input whose results are others than those that a view's commit with this summary was computed
    from, so that no tick may continue it; None if there is none. `life`: of an input's results now, None if nothing is
    stored of it. Commits of earlier releases do not say what they have read."""
    inputs = json.loads(summary.get("tidegate.inputs") or "{}")
    for name, entry in inputs.items():
        read = entry.get(LIFE_OF_INPUT)
        if read is not None and life(name) not in (None, read):
            return str(name)
    return None


def says_lives(summary: Mapping[str, str], name: str) -> bool:
    """Whether a view's commit with this summary says which life of the view `name` below it was computed from."""
    inputs = json.loads(summary.get("tidegate.inputs") or "{}")
    return name in inputs and LIFE_OF_INPUT in inputs[name]


def held_at(text: str | None) -> int | None:
    """The property `HELD_AT`, in ticks; None if the version is computed as far as its inputs allow."""
    return int(text) if text else None


def stands(until: str | None, now: datetime) -> bool:
    """The property `STANDS_UNTIL`: whether no tick of live mode goes beyond the version now."""
    return until is not None and now < datetime.fromisoformat(until) <= now + STANDS_AT_MOST


def held_text(name: str, at: str) -> str:
    """In words: the view `name` stops at a time, and what can be done."""
    return (
        f"its current version stops at {at}, where a new one takes its place: tidegate apply {name} --at '{at}' "
        f"completes this, and tidegate apply {name} ends it"
    )


def next_of(name: str) -> str:
    """What the version of a view that is built is stored as."""
    return f"{name}$next"


def tag_of(number: int) -> str:
    """The tag of a view's table at which the results of a version can be read."""
    return f"generation_{number}"


def number_of(life: str, now: str) -> int | None:
    """Which version of the table that has the life `now` has had the life `life` (`StoredTable.uuid`); None if that is
    another table."""
    return version_of(life) if life.partition("/")[0] == now.partition("/")[0] else None


def version_of(life: str) -> int:
    """The number of the version that has this life."""
    return int(life.partition("/")[2] or 1)


def current_version(properties: Mapping[str, str]) -> int:
    """Of a view's table."""
    return int(properties.get(GENERATION) or 1)


def next_number(properties: Mapping[str, str]) -> int:
    """Of the next version of a view's table: a number is given once."""
    return max(current_version(properties), int(properties.get(HIGHEST) or 1)) + 1


@dataclass(frozen=True)
class KeptVersion:
    """An earlier version of a view. `until`: when another one took its place, ISO, UTC; `frontier`: up to where its
    results were final then, as text; `definition`: what its table said of its definition, and of marked windows."""

    number: int
    until: str
    frontier: str
    definition: Mapping[str, str]

    @property
    def of_rows(self) -> dict[str, str]:
        """What its table said of its rows."""
        return {key: self.definition[key] for key in _OF_ROWS if key in self.definition}


def kept_versions(properties: Mapping[str, str]) -> tuple[KeptVersion, ...]:
    """The earlier versions of a view's table that can be read, oldest first."""
    return tuple(KeptVersion(**one) for one in json.loads(properties.get(KEPT) or "[]"))


def kept_text(versions: Iterable[KeptVersion]) -> str:
    """The property `KEPT`."""
    return json.dumps([asdict(one) for one in versions], ensure_ascii=False)


def with_kept(properties: Mapping[str, str], until: str, frontier: str) -> str:
    """The property `KEPT` once another version takes the place of the one that is current."""
    definition = {key: properties[key] for key in _OF_DEFINITION if key in properties}
    one = KeptVersion(current_version(properties), until, frontier, definition)
    return kept_text((*kept_versions(properties), one))


@dataclass(frozen=True)
class VersionInBuilding:
    """The version of a view that is built. `number`; `of`: the life of the table whose version it is; `inputs`: by name
    the life of what it reads, if that is a view; `started`: ISO, UTC. `cuts`: where its slices end (ticks), each with
    the rows of its input that it reads; empty if all is computed in one. `amended`: how many amendments the table had,
    as it was begun. `start`: the tag of the earlier version whose rows it began with; "": of none."""

    number: int
    of: str
    inputs: Mapping[str, str]
    started: str
    cuts: tuple[tuple[int, int], ...] = ()
    amended: int = 0
    start: str = ""

    def to_text(self) -> str:
        """The property `BUILDING`."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def of_text(cls, text: str | None) -> VersionInBuilding | None:
        """None if it is not there."""
        if text is None:
            return None
        found = json.loads(text)
        return cls(**{**found, "cuts": tuple((upto, rows) for upto, rows in found["cuts"])})

    def following(self, frontier: int | None) -> int | None:
        """Where the next slice ends; None for the last one, which has no end."""
        left = (upto for upto, _ in self.cuts if frontier is None or upto > frontier)
        return next(left, None)

    def seconds_left(self, frontier: int | None, now: datetime) -> float | None:
        """At the pace so far; None while that is not known."""
        done = self.done(frontier)
        spent = (now - datetime.fromisoformat(self.started)).total_seconds()
        return None if done == 0 else round(max(spent, 0.0) * (1 - done) / done, 1)

    def done(self, frontier: int | None) -> float:
        """Which part of the rows has been read, from 0 to 1; `frontier`: None before the first commit."""
        total = sum(rows for _, rows in self.cuts)
        if frontier is None or not total:
            return 0.0 if frontier is None else 1.0
        return sum(rows for upto, rows in self.cuts if upto <= frontier) / total


def cuts(files: list[tuple[int, int]], least_rows: int, at_most: int) -> tuple[tuple[int, int], ...]:
    """Where the slices end in which rows are read. `files`: the greatest time and the number of rows of each; a slice
    reads `least_rows` or more, and there are `at_most` of them."""
    total = sum(rows for _, rows in files)
    size = max(least_rows, -(-total // at_most))
    found: list[tuple[int, int]] = []
    collected, last = 0, 0
    for greatest, rows in sorted(files):
        if collected >= size:
            found.append((last, collected))
            collected = 0
        collected, last = collected + rows, greatest
    if collected:
        found.append((last, collected))
    # Slices that end at the same time are one.
    merged: dict[int, int] = {}
    for upto, rows in found:
        merged[upto] = merged.get(upto, 0) + rows
    return tuple(merged.items())


def stored_as(kind: str) -> str:
    """The Spark type in which a table has values of another one: Iceberg has no smaller integer."""
    return "int" if kind in ("tinyint", "smallint") else kind


@dataclass(frozen=True)
class KeptPast:
    """What a new version of a view keeps of the current one, because the rows behind it are gone (E5): the results that
    end at or before `upto` (ticks), and that it does not have itself. `columns`: by the name of each new column that of
    the current one, None where it has none. `refused`: why it can't, in words, and `remedy`: what to do then."""

    upto: int
    columns: Mapping[str, str | None]
    refused: str | None = None
    remedy: str = (
        "undo the change; or give a changed column, or the new definition, another name; or DROP the view and run "
        "again: it then begins at the oldest rows that are kept"
    )

    @property
    def valid_from(self) -> int:
        """The property `VALID_FROM`."""
        return self.upto + 1


def kept_past(
    view: View,
    columns: Iterable[tuple[str, str]],
    edges: Edges,
    frontier: int | None,
    said: Mapping[str, str],
    stored: Iterable[tuple[str, str]],
    own: Mapping[str, str] = MappingProxyType({}),
) -> KeptPast | None:
    """What a new version of a view keeps of the current one; None if it can compute all, or there is nothing to keep.
    `columns`: (name, Spark type) of the new version, the type may be `unknown`; `edges`: of its inputs. Of the current
    one `frontier`, `said`, its table properties, and `stored`, the columns of its table. `own`: what the last commit
    of the new one says."""
    upto, unknown = continuing(view, own, edges)
    if unknown is not None:
        why = (
            f'rows of "{unknown}" are beyond their retention, and it is not known which results of its query '
            "need them"
        )
        return KeptPast(0, {}, why, "undo the change: under another name, too, such a query needs all rows")
    if upto is None or frontier is None:
        return None
    if not TimeKind[said.get("tidegate.time-kind") or view.kind.name].same_ticks(view.kind):
        return KeptPast(
            upto, {}, "its windows end in another type than those of the results that would be kept"
        )
    before_system = takewhile(lambda column: column[0] != _SYSTEM, stored)
    known = {name.casefold(): (name, kind) for name, kind in before_system}
    found: dict[str, str | None] = {}
    misfits = []
    for name, kind in columns:
        before = known.get(name.casefold())
        found[name] = None if before is None else before[0]
        # (Of nested types each side has its own way to write them.)
        comparable = before is not None and "unknown" not in kind and "<" not in kind
        now = stored_as(kind)
        if before is not None and comparable and before[1] != now and not is_wider(before[1], now):
            misfits.append(f'column "{name}" was {display(before[1])} and is {display(kind)}')
    refused = f"its earlier results can't be kept: {'; '.join(misfits)}" if misfits else None
    return KeptPast(upto, found, refused)
