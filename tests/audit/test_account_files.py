"""What tables say of rows that are gone is in small files beside their data, which no snapshot has. A copy has them,
and `tidegate verify` looks at them: without them no audit adds up, and no plan is made (A1, E9, R5)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.audit.test_backup import CATALOG, catalog_of
from tests.conftest import Workbench
from tests.maintenance.people import arrive, audit, define, erased
from tests.maintenance.test_erase_views import TOTALS
from tests.views.test_version_lives import begun
from tidegate.audit.backup import back_up
from tidegate.audit.stored_files import verify_all
from tidegate.audit.view import audit_view
from tidegate.evolve.planning import planned
from tidegate.maintenance import upkeep
from tidegate.project import Project
from tidegate.project.jobs.maintenance import Policy
from tidegate.session.session import Session
from tidegate.views.amend.rebuild import rebuild

pytestmark = pytest.mark.runner("inprocess")

POLICY = Policy(retention=86_400, keep_snapshots=0, settle=0)


def changed(workbench: Workbench, mean: str) -> Session:
    define(workbench.root, TOTALS.replace("avg(id) AS mean", f"{mean} AS mean"))
    return workbench.session()


@pytest.fixture
def warehouse(workbench: Workbench) -> Path:
    """Rows of the log were erased, others are beyond their retention. The current version of a view, the one before it
    and the one that is built have marked windows."""
    arrive(workbench.root, 1, 2, 3)
    session = changed(workbench, "avg(id)")
    session.run()
    erased(session, keep_aggregates=True)
    upkeep.maintain(session, "orders", POLICY)
    rebuild(session := changed(workbench, "avg(id + 1)"), ["totals"])
    session.run()
    begun(changed(workbench, "avg(id + 2)"), "totals")
    return workbench.root / ".tidegate" / "warehouse"


def problems(root: Path) -> list[tuple[str, str]]:
    project = Project.load(root)
    every = [p for one in verify_all(project.storage, project.owner) for p in one.problems]
    return [(Path(one.file).name, one.what) for one in every]


def accounts(warehouse: Path) -> set[Path]:
    return {one for name in ("retired", "erased") for one in warehouse.glob(f"main/*/{name}/*")}


def test_A1_E9_a_copy_has_the_accounts_beside_the_data(
    workbench: Workbench, warehouse: Path, tmp_path: Path
) -> None:
    workbench.with_catalog(CATALOG)
    catalog_of(warehouse)
    back_up(Project.load(workbench.root), tmp_path / "copy")
    # Of the log two, and the marks of three versions.
    assert len(accounts(warehouse)) == 5
    for file in accounts(warehouse):
        file.unlink()
    shutil.copytree(tmp_path / "copy" / "copy" / "warehouse", warehouse, dirs_exist_ok=True)
    assert (problems(workbench.root), len(accounts(warehouse))) == ([], 5)
    # (Without a JVM the folder is the catalog.)
    workbench.with_catalog({"type": "hadoop"})
    (warehouse / "catalog.db").unlink()
    session = changed(workbench, "avg(id + 2)")
    assert {one.name: one.effect for one in planned(session.project, session.catalog)}[
        "totals"
    ] == "new version"
    found = audit(session)
    assert (found.erased, found.retired > 0) == (15, True)
    rebuild(session, ["totals"])
    assert audit_view(session, "totals").ok
    # Each goes on from what it said before.
    arrive(workbench.root, 4, 5, 6)
    session.run()
    assert upkeep.maintain(session, "orders", POLICY).tables[0].retired
    assert erased(session, keep_aggregates=True).rows > 0
    assert audit(session).erased > 15


def test_A1_E9_a_missing_account_is_found(workbench: Workbench, warehouse: Path) -> None:
    assert problems(workbench.root) == []
    for file in sorted(accounts(warehouse)):
        content = file.read_bytes()
        file.unlink()
        assert set(problems(workbench.root)) == {(file.name, "it is missing")}
        file.write_bytes(content[:-1])
        [(name, what), *_] = problems(workbench.root)
        assert (name, what.startswith("it can't be read: ")) == (file.name, True)
        file.write_bytes(content)
