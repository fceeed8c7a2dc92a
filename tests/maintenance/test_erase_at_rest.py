"""E9 with Iceberg's Java, whose manifests have bounds of texts: the value is found in each kind of place, then in
none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Workbench
from tests.maintenance.people import arrive, audit, define, erased, stored, there
from tests.support.searching import kinds


@pytest.mark.medium
def test_E9_a_value_is_found_wherever_it_is_and_then_nowhere(workbench: Workbench) -> None:
    """Files of compactions have bounds of all columns, in manifests and in footers; earlier snapshots, a tag and a
    branch that a statement has left have the files of before; a killed task has left one that nobody knows."""
    define(workbench.root)
    session = workbench.session()
    for number in (1, 2):
        arrive(workbench.root, number)
        session.run()
    upkeep = session.tables.upkeep(session.identifier("orders"))
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
    found = kinds(there(workbench.root))
    assert {"rows", "statistics", "manifest"} <= found, found
    assert erased(session).rows == 15
    assert there(workbench.root) == set()
    assert len(stored(session)) == len(before) - 15
    session.run()
    assert (audit(session).raw, audit(session).erased) == (12, 15)
    arrive(workbench.root, 4)
    session.run()
    assert audit(session).raw == 21


def _size(path: Path) -> int:
    return path.stat().st_size
