"""What a process that works for several groups has: its tasks, and a session for each group, closed with it."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from tests.conftest import Workbench
from tidegate.jvm.exit_hooks import remove_ended_hooks
from tidegate.jvm.java import java_class
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


@pytest.mark.spark
def test_what_iceberg_keeps_for_ever_of_files_and_compactions_is_not_kept_in_a_spark_that_lasts(
    workbench: Workbench,
) -> None:
    workbench.assets(a="CREATE TABLE t (k INT, ts TIMESTAMP) APPEND ONLY;")
    session = workbench.session()
    jvm: Any = session.spark._jvm
    root = java_class(jvm, "org.apache.iceberg.arrow.ArrowAllocation").rootAllocator()
    with closing(session.beside()) as beside:
        before, hooks, rows = root.getChildAllocators().size(), list[int](), 0
        for _ in range(3):
            for k in range(3):
                beside.execute(f"INSERT INTO t VALUES ({k}, '2026-01-01 12:00:00')")
                rows += 1
                assert len(beside.table("t").select("k").collect()) == rows
            gone, made = beside.tables.upkeep(beside.identifier("t")).compact(least_files=2)
            assert gone > made
            hooks.append(_exit_hooks(jvm))
        assert root.getChildAllocators().size() == before
        # The first one has made threads that stay, as well.
        assert hooks[0] == hooks[1] == hooks[2]
        assert remove_ended_hooks(jvm) == 0
    # Elsewhere, files are read by columns.
    assert {row[0] for row in session.table("t").select("k").collect()} == {0, 1, 2}
    assert root.getChildAllocators().size() > before


def _exit_hooks(jvm: Any) -> int:
    """How many hooks there are that wait for threads when the JVM ends."""
    field = (
        java_class(jvm, "java.lang.Class")
        .forName("java.lang.ApplicationShutdownHooks")
        .getDeclaredField("hooks")
    )
    field.setAccessible(True)
    return sum(
        str(hook.getName()).startswith("DelayedShutdownHook-for-") for hook in field.get(None).keySet()
    )
