"""Random graphs of views (`tests.graphs`) on the engine, compared after each FLUSH with DuckDB over all on-time rows.

What has been emitted is a part of the final truth and never changes (C2, C4); once every table is far ahead, it is all
of what these last rows do not change.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING
from unittest.mock import patch

import duckdb

from tests.conftest import Workbench
from tests.graphs import duck
from tests.graphs.generate import TYPES, Insert, Maker, Source, View, far, history
from tests.graphs.simulate import Log, recorded
from tidegate.errors import TidegateError
from tidegate.sql import Catalog, CreateRelation, CreateView, analyse
from tidegate.views import few_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidegate.session.session import Session

#: Seeds that share their tables and rows; every fourth such group runs with Spark's code generation.
TOGETHER = 20
#: Views of a seed, candidates that it may offer for them, and rows that the truth of one may have.
VIEWS, OFFERS, MOST_ROWS = 2, 20, 3_000
#: FLUSHes before the last one, which comes when all tables are far ahead; rounds of `history` that each takes.
FLUSHES, ROUNDS = 2, 4

Rows = Counter[tuple]


@dataclass
class Played:
    """Of the graphs that were played: views, result rows that they emitted, codes of candidates that were refused, and
    what failed, by seed."""

    views: int = 0
    rows: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    failures: dict[int, str] = field(default_factory=dict)

    def add(self, other: Played) -> None:
        self.views, self.rows = self.views + other.views, self.rows + other.rows
        self.refused += other.refused
        self.failures |= other.failures


@dataclass
class Checked:
    """A view of a seed. `closes`: the column in whose one tick its rows are; rows without a value there are never
    final. `truth`: over all rows on time; `due`: what of it has to be there once all tables are far ahead."""

    seed: int
    view: View
    closes: str | None
    truth: Rows = field(default_factory=Counter)
    due: Rows = field(default_factory=Counter)
    shown: Rows = field(default_factory=Counter)

    @property
    def names(self) -> list[str]:
        return [c.name for c in self.view.cols]


class Truth:
    """The same tables and views in DuckDB."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._duck = duckdb.connect(config={"threads": 1})
        self._logs = {source.name: Log(source) for source in sources}
        for name in self._logs:
            self._duck.execute(f"CREATE TABLE {name} (id BIGINT, k BIGINT, ts BIGINT)")

    def insert(self, inserts: Sequence[Insert]) -> None:
        """Rows in order; those that are late stay out (W1)."""
        for one in inserts:
            log = self._logs[one.source]
            before = len(log.rows)
            log.insert(one.rows)
            for row in log.rows[before:]:
                self._duck.execute(
                    f"INSERT INTO {one.source} VALUES (?, ?, ?)", [row["id"], row["k"], row["ts"]]
                )

    def rows(self, checked: Checked) -> Rows | None:
        """What the view holds once all is known; None where no order is told that the result depends on."""
        view = checked.view
        unclear = duck.ambiguous(view.query)
        if unclear and self._duck.execute(unclear).fetchone():
            return None
        final = f" WHERE {checked.closes} IS NOT NULL" if checked.closes else ""
        self._duck.execute(
            f"CREATE OR REPLACE TABLE {view.name} AS SELECT * FROM ({duck.query(view.query)}){final}"
        )
        found = self._duck.execute(
            f"SELECT {', '.join(checked.names)} FROM {view.name} LIMIT {MOST_ROWS + 1}"
        )
        return Counter(found.fetchall())


class Graphs:
    """The graphs of seeds that share their tables; nothing runs. `plan`: what is inserted before each FLUSH."""

    def __init__(self, seeds: Sequence[int]) -> None:
        self.number = seeds[0] // TOGETHER
        rng = Random(f"tables {self.number}")
        self.sources = Maker(rng).sources()
        self.plan = _plan(rng, self.sources)
        self.catalog, self.refused, self.views = Catalog(), Counter[str](), list[Checked]()
        for source in self.sources:
            (statement,) = analyse(source.sql(), self.catalog)
            assert isinstance(statement, CreateRelation)
            self.catalog.add(statement.relation)
        truth = Truth(self.sources)
        for inserts in self.plan[:-1]:
            truth.insert(inserts)
        for seed in seeds:
            self._make(seed, truth)
        truth.insert(self.plan[-1])
        for checked in self.views:
            checked.truth = truth.rows(checked) or Counter()
            checked.due &= checked.truth

    def _make(self, seed: int, truth: Truth) -> None:
        """The views of a seed, of those that its generator offers."""
        maker = Maker(Random(f"views {seed}"))
        for source in self.sources:
            maker.add(source)
        kept = 0
        for number in range(OFFERS):
            view = maker.view(f"g{seed}_{number}")
            closings: dict[str, str | None] = {}
            try:
                with recorded(closings):
                    (statement,) = analyse(view.sql(), self.catalog)
            except TidegateError as error:
                self.refused[error.code] += 1
                continue
            assert isinstance(statement, CreateView)
            checked = Checked(seed, view, closings[view.name])
            rows = truth.rows(checked)
            if rows is None or not 0 < rows.total() <= MOST_ROWS:
                continue
            if kept and number < OFFERS - 3 and len(view.query.reads()) < 2:
                continue  # what reads several, and views above all, is where a derivation can be wrong
            checked.due = rows
            self.catalog.add(statement.view)
            carried = {c.column for c in statement.view.watermarks}
            maker.add(view, tuple(replace(c, carries=c.name in carried) for c in view.cols))
            self.views.append(checked)
            kept += 1
            if kept == VIEWS:
                return

    def below(self, name: str) -> list[str]:
        """The views that a view reads, over any number of views."""
        by_name = {c.view.name: c.view for c in self.views}
        direct = [n for n in by_name[name].query.reads() if n in by_name]
        return list(dict.fromkeys([x for n in direct for x in [*self.below(n), n]]))


class Game:
    """Graphs on the engine."""

    def __init__(self, workbench: Workbench, graphs: Graphs) -> None:
        self.graphs, self.views, self.plan, self.sources = graphs, graphs.views, graphs.plan, graphs.sources
        # Of four, one is played as users have it (queries of so few rows are interpreted), or with all compiled.
        self.session: Session = workbench.session(compiled=graphs.number % 4 == 3)
        self.whole = graphs.number % 8 == 7
        for one in (*self.sources, *(c.view for c in self.views)):
            self.session.execute(f"{one.sql()};")
        self.played = Played(refused=graphs.refused)

    def play(self) -> Played:
        """All rows, FLUSH by FLUSH."""
        wrong: set[str] = set()
        for step, inserts in enumerate(self.plan):
            for one in inserts:
                self.session.execute(_insert(self.sources, one))
            with patch.object(few_rows, "FEW_ROWS", -1 if self.whole else few_rows.FEW_ROWS):
                self.session.execute("FLUSH;")
            shown = self._shown()
            for checked in self.views:
                now, name = shown[checked.view.name], checked.view.name
                found = {"never in the final truth": now - checked.truth, "gone again": checked.shown - now}
                if step == len(self.plan) - 1:
                    found["never emitted"] = checked.due - now
                checked.shown = now
                # Who reads what is wrong is wrong as well: only the first is told.
                if any(found.values()) and not wrong.intersection([name, *self.graphs.below(name)]):
                    told = self._report(checked, step, found)
                    before = self.played.failures.get(checked.seed)
                    self.played.failures[checked.seed] = told if before is None else f"{before}\n{told}"
                    wrong.add(name)
        self.played.views = len(self.views)
        self.played.rows = sum(c.shown.total() for c in self.views)
        self.session.close()
        return self.played

    def _shown(self) -> dict[str, Rows]:
        """The rows of every view, times as numbers of ticks; in one job."""
        from pyspark.sql import functions as F

        frames: list[DataFrame] = []
        for checked in self.views:
            table = self.session.table(checked.view.name)
            kinds = dict(table.dtypes)
            row = [_number(F.col(name), kinds[name]) for name in checked.names]
            frames.append(table.select(F.lit(checked.view.name), F.array(*row)))
        whole = frames[0]
        for frame in frames[1:]:
            whole = whole.unionAll(frame)
        found: dict[str, Rows] = {checked.view.name: Counter() for checked in self.views}
        for name, row in whole.collect():
            found[name][tuple(row)] += 1
        return found

    def _report(self, checked: Checked, step: int, found: dict[str, Rows]) -> str:
        """What differs, and the whole as a file for `tidegate test`."""
        name, right = checked.view.name, checked.shown & checked.truth
        out = [f"# Graph {checked.seed}: {name} is wrong after FLUSH {step + 1} of {len(self.plan)}."]
        for what, rows in found.items():
            out += [f"# {what}: {line}" for line in _text(checked, rows)[:8]]
            right += rows if what != "never in the final truth" else Counter()
        by_name = {c.view.name: c.view for c in self.views}
        needed = [*self.sources, *(by_name[n] for n in [*self.graphs.below(name), name])]
        out += [f"\nstatement ok\n{one.sql()};" for one in needed]
        for inserts in self.plan[: step + 1]:
            out += [f"\nstatement ok\n{_insert(self.sources, one)}" for one in inserts]
            out.append("\nstatement ok\nFLUSH;")
        out.append(f"\nquery T rowsort\nSELECT {', '.join(checked.names)} FROM {name}\n----")
        return "\n".join([*out, *_text(checked, right)]) + "\n"


def _plan(rng: Random, sources: Sequence[Source]) -> list[list[Insert]]:
    """What is inserted before each FLUSH; the last time, what brings every table far ahead."""
    rounds = history(rng, sources, FLUSHES * ROUNDS)
    found = []
    for start in range(0, len(rounds), ROUNDS):
        rows: dict[str, tuple] = {}
        for one in (one for inserts in rounds[start : start + ROUNDS] for one in inserts):
            rows[one.source] = (*rows.get(one.source, ()), *one.rows)
        found.append([Insert(name, several) for name, several in rows.items()])
    return [*found, far(sources)]


def _number(column: Column, kind: str) -> Column:
    from pyspark.sql import functions as F

    if kind.startswith("timestamp"):
        return F.unix_micros(column.cast("timestamp"))
    return (F.unix_date(column) if kind == "date" else column).cast("bigint")


def _insert(sources: Sequence[Source], one: Insert) -> str:
    kind = next(s.kind for s in sources if s.name == one.source)

    def row(number: int, k: int | None, t: int) -> str:
        at = str(t) if kind == "epoch" else f"'{_shown_as(kind, t)}'"
        return f"({number}, {'NULL' if k is None else k}, {at})"

    return f"INSERT INTO {one.source} VALUES {', '.join(row(*r) for r in one.rows)};"


def _text(checked: Checked, rows: Rows) -> list[str]:
    """Rows as `tidegate test` shows them."""
    kinds = [c.kind for c in checked.view.cols]
    return sorted(
        " ".join(_shown_as(kind, value) for kind, value in zip(kinds, row, strict=True))
        for row in rows.elements()
    )


def _shown_as(kind: str, value: int | None) -> str:
    if value is None:
        return "NULL"
    if kind not in TYPES or kind == "epoch":
        return str(value)
    if kind == "date":
        return str(date(1970, 1, 1) + timedelta(days=value))
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)
    return str(at if kind == "tz" else at.replace(tzinfo=None))


class Progress:
    """Where a long run stands, in a file: it goes on where it was stopped, and plays again what failed."""

    def __init__(self, path: Path | None, first: int, count: int) -> None:
        self.path, self.end = path, first + count
        self.next, self.failed = first, set[int]()
        if path is not None and path.is_file():
            known = json.loads(path.read_text("utf-8"))
            if known["first"] == first:
                self.next, self.failed = known["next"], set(known["failed"])
        self.first = first

    def groups(self) -> Iterator[list[int]]:
        """What is to be played: what failed, and what was not reached; seeds that share their tables together."""
        todo = [*sorted(self.failed), *range(self.next, self.end)]
        while todo:
            group = [seed for seed in todo if seed // TOGETHER == todo[0] // TOGETHER]
            todo = [seed for seed in todo if seed not in group]
            yield sorted(set(group))

    def done(self, seeds: Sequence[int], failed: Sequence[int]) -> None:
        """These have been played."""
        self.failed = (self.failed - set(seeds)) | set(failed)
        self.next = max(self.next, seeds[-1] + 1)
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            state = {"first": self.first, "next": self.next, "failed": sorted(self.failed)}
            self.path.write_text(json.dumps(state), "utf-8")


def play_all(
    new_workbench: Callable[[], Workbench], progress: Progress, say: Callable[[str], None]
) -> Played:
    """Everything that `progress` has not seen pass."""
    whole = Played()
    for seeds in progress.groups():
        played = Game(new_workbench(), Graphs(seeds)).play()
        whole.add(played)
        progress.done(seeds, sorted(played.failures))
        for told in played.failures.values():
            say(told)
        failed = ", ".join(map(str, sorted(played.failures))) or "none"
        say(f"seeds {seeds[0]} to {seeds[-1]}: {played.views} views, {played.rows} rows; failed: {failed}")
    return whole
