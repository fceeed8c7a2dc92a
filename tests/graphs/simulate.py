"""The views of a random graph brought up to date tick by tick, in plain Python, by the derivations and reaches of the
real analysis: what is emitted when, and whether it may be (C2, C4, D1-D3).

The relational part is that of `model.py`; of the analysis it uses `View.clock`, `View.inputs` (the slices), what the
columns carry, and which column closes. Judging rows and cutting slices follow the rules of the engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from unittest.mock import patch

from tests.graphs.generate import Insert, Maker, Source, View, far, history
from tests.graphs.model import HIDDEN, Row, Rows
from tests.graphs.windows import Over
from tidegate.errors import TidegateError
from tidegate.sql import Catalog, CreateRelation, CreateView, analyse
from tidegate.sql.catalog import objects as tidegate
from tidegate.sql.dialect import rewrite, roundtrip
from tidegate.sql.views import views
from tidegate.sql.views.views import Closing
from tidegate.watermark import Mark, SessionMark, TimeKind

_MICROS = (TimeKind.TIMESTAMP, TimeKind.TIMESTAMPTZ)


@dataclass
class Log:
    """A source as it stands: rows on time, and its watermark."""

    source: Source
    rows: Rows = field(default_factory=list)
    watermark: int | None = None

    def insert(self, rows: Sequence[tuple[int, int | None, int]]) -> None:
        """Judge rows (W1), one after the other."""
        for number, k, t in rows:
            if self.watermark is None or t >= self.watermark:
                self.rows.append({"id": number, "k": k, "ts": t})
                self.watermark = max(t - self.source.delay, self.watermark or t - self.source.delay)

    @property
    def mark(self) -> Mark:
        return self.watermark

    def within(self, low: int | None, high: int | None) -> Rows:
        return [r for r in self.rows if (low is None or r["ts"] >= low) and (high is None or r["ts"] < high)]


@dataclass
class State:
    """A view as it stands: `view` as written, `found` as analysed; `closes`: the column in whose one tick a row is,
    None for what the query itself ends. `emitted`: its final rows, each with `_end`."""

    view: View
    found: tidegate.View
    closes: str | None
    kinds: tuple[TimeKind | None, ...]
    emitted: Rows = field(default_factory=list)
    frontier: int | None = None
    earliest: int | None = None
    carried: Rows = field(default_factory=list)

    @property
    def mark(self) -> Mark:
        return SessionMark(self.frontier, self.earliest) if self.found.open_sql is not None else self.frontier

    def within(self, low: int | None, high: int | None) -> Rows:
        return [
            r
            for r in self.emitted
            if (low is None or r["_end"] >= low) and (high is None or r["_end"] < high)
        ]

    def ended(self, rows: Rows) -> Rows:
        """The rows with `_end`, of those that have one."""
        if self.closes is not None:
            rows = [r | {"_end": r[self.closes] + 1} for r in rows if r[self.closes] is not None]
        return [r for r in rows if r["_end"] is not None]

    def marks(self) -> dict[str, int | None]:
        """The watermarks of its columns, for who reads it (D3)."""
        return {c.column: c.derived.at(self.mark) for c in self.found.watermarks}


class Unsound(AssertionError):
    """What a derivation said was not so."""


@dataclass
class World:
    """Sources and views that were accepted, in order; `refused`: the codes of those that were not."""

    sources: list[Source]
    views: list[View]
    catalog: Catalog
    closings: Mapping[str, str | None]
    refused: Counter

    def text(self, name: str) -> str:
        """The definitions that a view stands on, and its own."""
        byname = {v.name: v for v in self.views}
        needed: dict[str, None] = {}

        def visit(one: str) -> None:
            for below in byname[one].query.reads() if one in byname else ():
                visit(below)
            needed[one] = None

        visit(name)
        of = {s.name: s for s in self.sources} | byname
        return "\n".join(f"{of[n].sql()};" for n in needed)

    def states(self) -> dict[str, State]:
        found = {}
        for view in self.views:
            analysed = self.catalog.get(view.name)
            assert isinstance(analysed, tidegate.View)
            assert [i.name for i in analysed.inputs] == view.query.reads()
            kinds = tuple(_kind(self.catalog.get(i.name)) for i in analysed.inputs)
            found[view.name] = State(view, analysed, self.closings[view.name], kinds)
        return found


def _kind(obj: object) -> TimeKind | None:
    if isinstance(obj, tidegate.View):
        return obj.kind
    assert isinstance(obj, tidegate.Relation)
    return obj.watermark.kind if obj.watermark is not None else None


def make(rng: Random, count: int) -> World:
    """A random world with `count` views that the analysis takes."""
    maker, catalog, closings, refused = Maker(rng), Catalog(), {}, Counter()
    sources, accepted = maker.sources(), []
    for source in sources:
        (statement,) = analyse(source.sql(), catalog)
        assert isinstance(statement, CreateRelation)
        catalog.add(statement.relation)
    while len(accepted) < count and sum(refused.values()) < 20 * count:
        view = maker.view(f"v{len(accepted)}")
        try:
            with recorded(closings):
                (statement,) = analyse(view.sql(), catalog)
        except TidegateError as error:
            refused[error.code] += 1
            continue
        assert isinstance(statement, CreateView)
        catalog.add(statement.view)
        carried = {c.column for c in statement.view.watermarks}
        maker.add(view, tuple(replace(c, carries=c.name in carried) for c in view.cols))
        accepted.append(view)
    return World(sources, accepted, catalog, closings, refused)


@contextmanager
def recorded(closings: dict[str, str | None]) -> Iterator[None]:
    """Puts down which column of a view is the one by whose ticks it closes, while it is analysed; what it takes longest
    for, and what says nothing about watermarks, is left out: the second reading and the SQL of expressions."""
    whole = views._view

    def view(syntax, reader, flow, selected, closing: Closing | None):
        if closing is not None:
            byquery = closing.column is None or flow.over is not None
            names = [c.name for c in flow.columns if not byquery and views._closes(c, selected, closing)]
            closings[syntax.name.text] = names[0] if names else None
            assert names or byquery, "the column that closes it is not shown"
        return whole(syntax, reader, flow, selected, closing)

    with (
        patch.object(views, "_view", view),
        patch.object(roundtrip, "check_round_trip", lambda *_: None),
        patch.object(rewrite, "safe", lambda node, _: node),
        patch.object(rewrite, "to_spark", lambda _: ""),
    ):
        yield


def run(world: World, rng: Random, rounds: int = 8) -> dict[str, State]:
    """One random history: some rows, some ticks, and so on; then everything is pushed far ahead. Raises Unsound as soon
    as something is emitted that should not be, or comes below a watermark, and at the end if something is missing."""
    logs = {s.name: Log(s) for s in world.sources}
    states = world.states()
    plan = history(rng, world.sources, rounds)
    before: list[tuple[str, Counter]] = []
    for inserts in plan:
        _insert(logs, inserts)
        for name, state in states.items():
            if rng.random() < 0.85:
                marks = state.marks()
                rows = tick(state, logs, states)
                _check_marks(name, state, marks, rows)
    early = truth(world, states, logs)
    before = [(name, Counter(map(_key, rows))) for name, rows in early.items()]
    _insert(logs, far(world.sources))
    for name, state in states.items():
        marks = state.marks()
        _check_marks(name, state, marks, tick(state, logs, states))
    whole = truth(world, states, logs)
    for name, settled in before:
        state, final = states[name], Counter(map(_key, whole[name]))
        emitted = Counter(map(_key, state.emitted))
        _require(name, "emitted, but not in the truth", emitted - final)
        _require(name, "in the truth, but never emitted", (settled & final) - emitted)
    return states


def _require(name: str, what: str, rows: Counter) -> None:
    if rows:
        raise Unsound(name, f"{what}: {[dict(r) for r in list(rows)[:3]]}")


def _insert(logs: Mapping[str, Log], inserts: Sequence[Insert]) -> None:
    for insert in inserts:
        logs[insert.source].insert(insert.rows)


def _check_marks(name: str, state: State, marks: Mapping[str, int | None], rows: Rows) -> None:
    for column, mark in marks.items():
        for row in rows:
            if mark is not None and (row[column] is None or row[column] < mark):
                raise Unsound(name, f"{column} had the watermark {mark}, and then came {row}")


def tick(state: State, logs: Mapping[str, Log], states: Mapping[str, State]) -> Rows:
    """What becomes final now, by the analysis: the slice between the frontier and the clock."""
    found, below = state.found, [logs.get(i.name) or states[i.name] for i in state.found.inputs]
    assert found.clock is not None
    reached, frontier = found.clock.at(*[b.mark for b in below]), state.frontier
    if reached is None or (frontier is not None and reached <= frontier):
        return []
    start = min((m for m in (frontier, state.earliest) if m is not None), default=None)
    inputs = []
    for entry, kind, one in zip(found.inputs, state.kinds, below, strict=True):
        scaled = kind is found.kind or (kind in _MICROS and found.kind in _MICROS)
        low = None if start is None or entry.low is None or not scaled else start + entry.low
        high = None if entry.high is None or not scaled else reached + entry.high
        inputs.append(one.within(low, high))
    query = state.view.query
    if isinstance(query, Over):
        arrived = query.child.rows(inputs)
        times = [(r, r[query.time]) for r in arrived if r[query.time] is not None]
        state.carried += [r for r, t in times if (frontier is None or t >= frontier) and t < reached]
        result = query.of(state.carried)
    else:
        result = query.rows(inputs)
    rows = [
        r for r in state.ended(result) if r["_end"] <= reached and (frontier is None or r["_end"] > frontier)
    ]
    if found.open_sql is not None:
        open_ = [r["window_start"] for r in result if r["_end"] > reached]
        state.earliest = min(open_, default=None)
    state.frontier = reached
    state.emitted += rows
    return rows


def truth(world: World, states: Mapping[str, State], logs: Mapping[str, Log]) -> dict[str, Rows]:
    """Every view as plain SQL would have it over all rows on time, without any watermark."""
    known: dict[str, Rows] = {name: log.rows for name, log in logs.items()}
    for view in world.views:
        known[view.name] = states[view.name].ended(view.query.rows([known[n] for n in view.query.reads()]))
    return {v.name: known[v.name] for v in world.views}


def _key(row: Row) -> tuple:
    return tuple((k, v) for k, v in sorted(row.items()) if k not in HIDDEN)
