"""E2, E3: whatever becomes of the columns of a log between its batches, a value stays under its own column, and nowhere
else: in SQL, in panes that tasks compute from the files, and for whoever reads the table by Iceberg's ids."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, note, settings
from hypothesis import strategies as st

from tests.conftest import Workbench
from tests.evolve.test_apply import shown

pytestmark = pytest.mark.runner("inprocess")

NAMES = ("a", "b", "c")
KINDS = ("INT", "BIGINT", "VARCHAR")
WIDER = {"INT": "BIGINT"}


@dataclass
class Column:
    """One column for all its life, whatever it is called."""

    name: str
    kind: str
    number: int = field(default_factory=count().__next__)


@dataclass
class Oracle:
    """What a table holds whose values belong to columns and not to names. It knows nothing of schemas or files."""

    columns: list[Column] = field(default_factory=lambda: [Column("a", "INT")])
    rows: list[dict[int, Any]] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)

    def definition(self) -> str:
        columns = [
            f"{c.name} {c.kind}" + (f" RENAMED FROM {self.renamed[c.name]}" if c.name in self.renamed else "")
            for c in self.columns
        ]
        columns += ["ts TIMESTAMP", "WATERMARK FOR ts AS ts"]
        return f"CREATE TABLE t ({', '.join(columns)}) APPEND ONLY;"

    def change(self, what: str, at: int, kind: str) -> None:
        """Edit the definition, if that can be said without a doubt."""
        self.renamed = {}
        free = [name for name in NAMES if all(c.name != name for c in self.columns)]
        column = self.columns[at % len(self.columns)] if self.columns else None
        if what in ("add", "replace") and free:
            if what == "replace" and column is not None:
                # It gets a new name, and another column its old one, in one edit.
                self.renamed = {free[0]: column.name}
                self.columns.insert(at % (len(self.columns) + 1), Column(column.name, kind))
                column.name = free[0]
            else:
                self.columns.insert(at % (len(self.columns) + 1), Column(free[at % len(free)], kind))
        elif what == "drop" and column is not None:
            self.columns.remove(column)
        elif what == "rename" and column is not None and free:
            self.renamed = {free[-1]: column.name}
            column.name = free[-1]
        elif what == "widen" and column is not None:
            column.kind = WIDER.get(column.kind, column.kind)
        elif what == "move" and self.columns:
            self.columns.insert(at % len(self.columns), self.columns.pop())

    def insert(self, value: int) -> str:
        """A row more; the statement."""
        typed = {c.number: str(value) if c.kind == "VARCHAR" else value for c in self.columns}
        self.rows.append(typed)
        values = [repr(typed[c.number]) for c in self.columns]
        return f"INSERT INTO t VALUES ({', '.join([*values, _time(len(self.rows))])})"

    def shown(self) -> list[tuple[Any, ...]]:
        return [tuple(row.get(c.number) for c in self.columns) for row in self.rows]


def _time(number: int) -> str:
    return f"'2026-01-01 12:{number:02d}:00'"


def view(name: str, column: str) -> str:
    return (
        f"CREATE MATERIALIZED VIEW {name} AS SELECT window_end, max({column}) AS most, count({column}) AS n "
        "FROM TUMBLE(t, ts, INTERVAL '1 minute') GROUP BY window_end EMIT ON WINDOW CLOSE;"
    )


EDIT = st.tuples(
    st.sampled_from(("add", "add", "replace", "replace", "drop", "rename", "widen", "move")),
    st.integers(0, 5),
    st.sampled_from(KINDS),
)


@example([[("rename", 0, "INT")], [("replace", 0, "INT")]])
@given(st.lists(st.lists(EDIT, max_size=1), min_size=2, max_size=5))
@settings(max_examples=settings().max_examples // 7, suppress_health_check=list(HealthCheck))
def test_E2_E3_values_stay_under_their_columns(
    workbench: Workbench, turns: list[list[tuple[str, int, str]]]
) -> None:
    bench, oracle = Workbench(Path(mkdtemp(dir=workbench.root)), None), Oracle()
    #: Of the view that names the column `a`: which column that was as its results were computed, and of what type.
    computed: tuple[int, str] | None = None
    for number, edits in enumerate(([], *turns)):
        for edit in edits:
            oracle.change(*edit)
        note(oracle.definition())
        named = next((c for c in oracle.columns if c.name == "a"), None)
        bench.assets(t=oracle.definition(), v=view("of_a", "a") if named is not None else "")
        session = bench.session()
        session.execute(oracle.insert(10 + number))
        names = [c.name for c in oracle.columns]
        if names:
            assert shown(session, f"SELECT {', '.join(names)} FROM t ORDER BY ts") == oracle.shown()
        failed = [one.name for one in session.run(fail_fast=False).failed]
        if named is not None:
            # Another column, or another type of its values: the view's results are of an earlier definition (E3).
            other = computed not in (None, (named.number, named.kind))
            assert failed == (["of_a"] if other else [])
            if other:
                _rebuild(session)
            computed = named.number, named.kind
    _of_all_files(bench, oracle)
    _by_ids(bench, oracle)


def _rebuild(session: Any) -> None:
    from tidegate.views.amend.rebuild import rebuild

    assert [one.view for one in rebuild(session)] == ["of_a"]


def _of_all_files(bench: Workbench, oracle: Oracle) -> None:
    """A new view for each column reads the files of every shape."""
    views = {f"all_{c.name}": c for c in oracle.columns}
    bench.assets(v="".join(view(name, c.name) for name, c in views.items()))
    session = bench.session()
    session.execute(oracle.insert(99))
    session.run()
    for name, column in views.items():
        values = [row.get(column.number) for row in oracle.rows[:-1]]
        expected = [(value, 0 if value is None else 1) for value in values]
        assert shown(session, f"SELECT most, n FROM {name} ORDER BY window_end") == expected


def _by_ids(bench: Workbench, oracle: Oracle) -> None:
    from pyiceberg.table import StaticTable

    from tidegate.store.metadata import load_table

    storage = bench.session().project.storage
    stored = load_table(storage, "t")
    assert stored is not None
    names = [c.name for c in oracle.columns]
    table = StaticTable.from_metadata(stored.metadata_location, storage.pyiceberg_properties())
    assert [field.name for field in table.schema().fields][: len(names) + 1] == [*names, "ts"]
    rows = (
        table.scan("_outcome == 'on_time'", selected_fields=(*names, "ts"))
        .to_arrow()
        .sort_by("ts")
        .to_pylist()
    )
    assert [tuple(row[name] for name in names) for row in rows] == oracle.shown()
