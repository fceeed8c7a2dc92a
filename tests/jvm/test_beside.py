"""What a process that works for several groups has: its tasks, and a session for each group, closed with it."""

from __future__ import annotations

import pytest

from tests.conftest import Workbench
from tidegate.jvm.spark import _shared


@pytest.mark.parametrize(
    ("master", "made", "cores"),
    [
        ("local", "local[4]", "1"),
        ("local[2]", "local[8]", "2"),
        ("local[2,3]", "local[8,3]", "2"),
        ("local[ 2 , 3 ]", "local[8,3]", "2"),
    ],
)
def test_a_process_of_several_groups_runs_four_tasks_a_core_whatever_form_the_master_has(
    master: str, made: str, cores: str
) -> None:
    settings = _shared(master)
    assert (settings["spark.master"], settings["spark.default.parallelism"]) == (made, cores)
    assert settings["spark.scheduler.mode"] == "FAIR"


def test_all_cores_are_those_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    assert _shared("local[*]")["spark.master"] == "local[12]"
    assert _shared("local[*,2]")["spark.master"] == "local[12,2]"


def test_a_cluster_shares_its_own_cores() -> None:
    for master in ("spark://host:7077", "yarn", "local-cluster[2,1,1024]"):
        assert _shared(master) == {"spark.scheduler.mode": "FAIR"}


@pytest.mark.spark
def test_a_session_beside_gives_back_its_connections_and_leaves_the_other_one_alone(
    workbench: Workbench,
) -> None:
    workbench.with_catalog({"type": "jdbc", "uri": "jdbc:sqlite:.tidegate/warehouse/catalog.db"})
    workbench.assets(a="CREATE TABLE t (k INT PRIMARY KEY);")
    session = workbench.session()
    session.execute("INSERT INTO t VALUES (1)")
    beside = session.beside()
    assert beside.table("t").count() == 1
    plugin = beside.spark._jsparkSession.sessionState().catalogManager().catalog("tidegate")
    catalog = plugin.icebergCatalog()
    assert catalog.listNamespaces().size() == 1
    beside.close()
    with pytest.raises(Exception, match="closed pool"):
        catalog.listNamespaces()
    assert session.table("t").count() == 1
    assert workbench.root.is_dir()
