"""A bundle of random cases (`tests.oracles.cases`) on the engine: feed it step by step, compare every view with its
oracle."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.conftest import Workbench
from tests.oracles.cases import DRIVER, Feed, Seen, play
from tests.oracles.oracle import Row
from tidegate.session.session import Session

#: Random cases in one bundle.
CASES = 150
#: The oracle's 0.
BEGIN = datetime(2026, 1, 1)
COLUMNS = "c INT, p VARCHAR, id INT, k VARCHAR, v INT, ts TIMESTAMP, wm TIMESTAMP, WATERMARK FOR ts AS wm"
SOURCE = """
CREATE SOURCE {name} ({columns}) WITH (connector = 'filesystem', path = 'input/{name}',
    partition.columns = 'p', max_files_per_batch = '1') FORMAT PLAIN ENCODE JSON;
"""


def with_random_seeds(check: Callable[[Random], None]) -> None:
    """One bundle of `CASES` in CI, and as many more as the profile asks for. Nothing is shrunk: a run of the engine
    takes long, and a bundle names the smallest of its cases that differs."""

    @settings(
        max_examples=max(1, settings().max_examples // CASES),
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
    )
    @given(st.integers(0, 2**32 - 1))
    def property(seed: int) -> None:
        check(Random(seed))

    property()


@dataclass(frozen=True)
class Checked:
    """A view, and what it must show: `expected` is given each source's rows and watermark. The first column is the
    case. `ordered`: in this order (C4)."""

    name: str
    query: str
    expected: Callable[[Mapping[str, Seen]], list[tuple]]
    emit: bool = True
    ordered: bool = False

    @property
    def sql(self) -> str:
        """The whole CREATE statement."""
        return self.create(self.name)

    def create(self, name: str) -> str:
        """The same query under another name."""
        emit = " EMIT ON WINDOW CLOSE" if self.emit else ""
        return f"CREATE MATERIALIZED VIEW {name} AS {self.query}{emit};"

    def of_integers(self) -> Checked:
        """The same over times that are numbers of seconds (W10)."""
        return replace(self, query=re.sub(r"INTERVAL '(\d+) seconds'", r"\1", self.query))


class Bundle:
    """The sources' feeds on one project. `check` raises AssertionError with the smallest case that differs."""

    def __init__(
        self,
        workbench: Workbench,
        feeds: Mapping[str, Feed],
        views: Sequence[Checked],
        integers: bool = False,
    ) -> None:
        self.workbench, self.feeds, self.integers = workbench, feeds, integers
        self.views = [view.of_integers() for view in views] if integers else views
        self.columns = COLUMNS.replace("TIMESTAMP", "BIGINT") if integers else COLUMNS
        sources = {name: SOURCE.format(name=name, columns=self.columns) for name in feeds}
        workbench.assets(**sources, **{f"view_{view.name}": view.sql for view in self.views})
        for name in feeds:
            (workbench.root / "input" / name).mkdir(parents=True)
        self.seen = {name: play(feed) for name, feed in feeds.items()}
        self.session: Session = workbench.session()

    def check(self) -> None:
        """Every step through the engine; after each, every view equals its oracle. At the end the same views, made
        anew over the whole log, hold the same (R5): stream equals batch."""
        steps = len(next(iter(self.feeds.values())).steps)
        for step in range(steps):
            for name, feed in self.feeds.items():
                for i, batch in enumerate(feed.steps[step]):
                    lines = [json_row(row, self.integers) for row in batch]
                    self.workbench.json_lines(f"input/{name}/{step:02d}-{i:02d}.json", lines)
            self.session.run()
            for view in self.views:
                self.compare(view, view.name, step)
        for view in self.views:
            again = f"{view.name}_again"
            self.session.execute(view.create(again))
            self.compare(view, again, steps - 1)

    def compare(self, view: Checked, table: str, step: int) -> None:
        """One view as it is stored now against the oracle after this step."""
        seen = {name: states[step] for name, states in self.seen.items()}
        in_order = [tuple(map(plain, row)) for row in view.expected(seen)]
        found = [tuple(map(plain, row)) for row in self.session.table(table).collect()]
        expected, shown = Counter(in_order), Counter(found)
        if shown == expected:
            wrong_place = next(
                (pair for pair in zip(found, in_order, strict=True) if pair[0] != pair[1]), None
            )
            assert not view.ordered or wrong_place is None, (
                f"{table} is out of order: {wrong_place}, step {step}"
            )
            return
        missing, surplus = expected - shown, shown - expected
        wrong = {row[0] for row in [*missing, *surplus]}
        case = min(wrong, key=lambda c: (self.size(c), str(c)))
        lines = [
            f"{table} differs from the oracle in {len(wrong)} cases after step {step}; the smallest is case {case}.",
            f"missing: {[row for row in sorted(missing.elements(), key=str) if row[0] == case]}",
            f"surplus: {[row for row in sorted(surplus.elements(), key=str) if row[0] == case]}",
            f"watermarks: { {name: state.watermark for name, state in seen.items()} } seconds",
            self.script(view, case, step),
        ]
        raise AssertionError("\n".join(lines))

    def size(self, case: int) -> int:
        """How many rows a case has."""
        return sum(1 for feed in self.feeds.values() for _ in feed.rows(case))

    def script(self, view: Checked, case: int, until: int) -> str:
        """The case by itself, to be pasted into a shell (partition p has become a mere column)."""
        out = [f"CREATE TABLE {name} ({self.columns}) APPEND ONLY;" for name in self.feeds]
        out.append(view.sql)
        for step in range(until + 1):
            for name, feed in self.feeds.items():
                rows = [r for s, r in feed.rows() if s == step and r.payload["c"] in (case, DRIVER)]
                if rows:
                    values = ",\n  ".join(sql_row(row, self.integers) for row in rows)
                    out.append(f"INSERT INTO {name} VALUES\n  {values};")
            out.append(f"FLUSH; SELECT * FROM {view.name}; -- step {step}")
        return "\n".join(out)


def instant(seconds: int | None) -> str | None:
    return None if seconds is None else f"{BEGIN + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S}"


def times(row: Row, integers: bool) -> tuple[int | str | None, int | str | None]:
    """ts and wm as they are written."""
    both = row.event_time, row.payload["wm"]
    return both if integers else (instant(both[0]), instant(both[1]))


def json_row(row: Row, integers: bool = False) -> dict[str, Any]:
    ts, wm = times(row, integers)
    return row.payload | {"p": row.partition, "ts": ts, "wm": wm}


def sql_row(row: Row, integers: bool = False) -> str:
    p = row.payload
    values = (p["c"], row.partition, p["id"], p["k"], p["v"], *times(row, integers))
    texts = ("NULL" if v is None else f"'{v}'" if isinstance(v, str) else str(v) for v in values)
    return f"({', '.join(texts)})"


def plain(value: Any) -> Any:
    """As the oracle counts: times in seconds, numbers without their type (C7: within 1e-9)."""
    if isinstance(value, datetime):
        return (value - BEGIN) / timedelta(seconds=1)
    return round(float(value), 9) if isinstance(value, float | Decimal) else value
