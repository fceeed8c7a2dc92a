"""E9 with Iceberg's Java, whose manifests have bounds of texts: the value is found in each kind of place, then in
none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Workbench
from tests.maintenance.people import arrive, audit, define, erased, stored, there
from tests.maintenance.remaining import CALLS, DAYS, PAIRS, STEPS, VISITS, call, shown, truth
from tests.maintenance.test_erase_views import HOURS
from tests.support.searching import kinds
from tidegate.audit.view import audit_view

VIEWS = f"""
CREATE MATERIALIZED VIEW hourly AS SELECT window_start, customer, count(*) AS n {HOURS}
GROUP BY window_start, customer EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW totals AS SELECT window_start, count(*) AS n {HOURS} GROUP BY window_start
EMIT ON WINDOW CLOSE;
"""


@pytest.mark.medium
def test_E9_a_value_is_found_wherever_it_is_and_then_nowhere(workbench: Workbench) -> None:
    """Files of compactions have bounds of all columns, in manifests and in footers; earlier snapshots, a tag and a
    branch that a statement has left have the files of before; a killed task has left one that nobody knows."""
    define(workbench.root, VIEWS)
    session = workbench.session()
    for number in (1, 2):
        arrive(workbench.root, number)
        session.run()
    for name in ("hourly", "orders"):
        upkeep = session.tables.upkeep(session.identifier(name))
        upkeep.table.tag("kept")
        assert upkeep.compact(least_files=2)[0] > 0
    java = session.tables.open(session.identifier("orders")).java  # type: ignore[attr-defined]  # it is on Spark
    java.manageSnapshots().createBranch("tidegate_left", java.currentSnapshot().snapshotId()).commit()
    arrive(workbench.root, 3)
    session.run()
    data = Path(upkeep.table.location.removeprefix("file:")) / "data"
    some = next(data.rglob("*.parquet"))
    (some.parent / "killed.parquet").write_bytes(max(data.rglob("*.parquet"), key=_size).read_bytes())
    before = stored(session)
    for folder in ("orders", "hourly"):
        found = kinds({place for place in there(workbench.root) if f"/{folder}/" in place})
        assert {"rows", "statistics", "manifest"} <= found, (folder, found)
    done = erased(session, keep_aggregates=True)
    assert [(t.table, t.rows, t.marked) for t in done.tables] == [
        ("orders", 15, 0),
        ("totals", 0, 6),
        ("hourly", 5, 0),
    ]
    assert there(workbench.root) == set()
    assert all(audit_view(session, name).ok for name in ("hourly", "totals"))
    assert len(stored(session)) == len(before) - 15
    session.run()
    assert (audit(session).raw, audit(session).erased) == (12, 15)
    arrive(workbench.root, 4)
    session.run()
    assert audit(session).raw == 21
    assert all(audit_view(session, name).ok for name in ("hourly", "totals"))


@pytest.mark.long_run
@pytest.mark.medium
@pytest.mark.parametrize(
    "views", [{"visits": VISITS, "steps": STEPS}, {"pairs": CALLS + PAIRS, "days": DAYS}], ids=" ".join
)
def test_E9_a_value_is_nowhere_in_views_that_were_computed_again(
    workbench: Workbench, views: dict[str, str]
) -> None:
    """A session, what OVER carries from run to run, a join, and groups over sorted rows."""
    define(workbench.root, *views.values())
    session = workbench.session()
    for number in (1, 2):
        arrive(workbench.root, number)
        call(workbench.root, number)
        session.run()
    names = tuple(views)
    for name in names:
        session.tables.upkeep(session.identifier(name)).compact(least_files=2)
    for folder in names:
        found = kinds({place for place in there(workbench.root) if f"/{folder}/" in place})
        assert {"rows", "statistics"} <= found, (folder, found)
    # (A bound has it only where the person's name is the first or the last one of a file.)
    assert "manifest" in kinds(there(workbench.root))
    assert shown(session, names) == truth(session, names)
    done = {table.table: table for table in erased(session, recompute=True).tables}
    assert {name for name, table in done.items() if table.recomputed} == set(names)
    assert there(workbench.root) == set()
    assert shown(session, names) == truth(session, names)
    assert all(audit_view(session, name).ok for name in names)
    arrive(workbench.root, 3)
    call(workbench.root, 3)
    session.run()
    assert shown(session, names) == truth(session, names)


def _size(path: Path) -> int:
    return path.stat().st_size
