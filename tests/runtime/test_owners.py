"""Every function that changes what is in a warehouse, found by machine, and who asks for its owner (X3)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_architecture import SPARK

PACKAGE = Path(__file__).resolve().parents[2] / "platform" / "tidegate"
#: The rooms of which something may reach a warehouse.
ROOMS = (
    *SPARK,
    "evolve",
    "amend",
    "audit",
    "advise",
    "quality",
    "store",
    "cli",
    "dagster",
    "testing",
    "findings",
    "live",
)
SQL = re.compile(
    r"\b(CREATE TABLE|CREATE NAMESPACE|DROP TABLE|ALTER TABLE|DELETE FROM|MERGE INTO|INSERT INTO|CALL) "
)
CALLS = {"commit", "writeTo", "delete_dir", "delete_file", "move"}
#: Of the port to tables (`iceberg/tables.py`).
CALLS |= {
    "create_table",
    "drop_table",
    "add_stored_column",
    "set_properties",
    "merge_rows",
    "delete_rows",
    "rename_table",
    "make_version",
    "end_version",
    "swap",
    "forget_tags",
}
CALLS |= {"expire", "compact", "merge_manifests", "remove_orphans", "remove_files"}
CALLS |= {"forget_names", "forget_removed"}
#: Functions, where the others are methods.
PUTS = {"put_whole", "put", "attempted", "make_table"}
ACTIONS = {"dropTable", "rewriteDataFiles", "rewriteManifests", "usePrefixListing"}

TABLE = "looks at the owner at every commit"
LEASE = "under Context.lease"
OPEN = "opened by Log.of, under Context.lease"
SINK = "under the sink's lease; its table is looked at whenever it is opened"
#: Who asks for the owner before anything is changed. A function that is new belongs here, with its answer.
GUARDS = {
    "cli/diagnosis.py:warehouse": "a file of its own, to see whether it can be written",
    "iceberg/attempt.py:attempted": TABLE,
    "iceberg/commit.py:IcebergTable.tag": LEASE,
    "runtime/context.py:Context._dropped": "of Context.forget, which asks first",
    "runtime/context.py:Context._remove": "of what is dropped, or under Context.lease",
    "ingest/ingest.py:Log.__init__": "Log.of asks",
    "iceberg/commit.py:IcebergTable.delete_rows": LEASE,
    "iceberg/commit.py:IcebergTable.set_properties": "it is what asks, or under Context.lease",
    "iceberg/statement.py:StatementBranch.__init__": "under Context.lease or the sink's",
    "iceberg/statement.py:StatementBranch.publish": "under Context.lease or the sink's",
    "iceberg/statement.py:_Change.commit": "under Context.lease or the sink's",
    "iceberg/statement.py:forget_broken": LEASE,
    "iceberg/commit.py:IcebergTable._attempt": TABLE,
    "iceberg/commit.py:IcebergTable.forget_tags": LEASE,
    "iceberg/table_change.py:change_table": TABLE,
    "iceberg/table_commit.py:TableCommit.commit": TABLE,
    "iceberg/table_commit.py:put": TABLE,
    "iceberg/merge.py:Merge.sql": LEASE,
    "iceberg/layout.py:NewTable.sql": "makes what is not there, under a lease that has looked at the namespace",
    "iceberg/tables.py:SparkTables._create_first_table": LEASE,
    "iceberg/tables.py:SparkTables.add_stored_column": LEASE,
    "iceberg/tables.py:SparkTables.drop_table": LEASE,
    "iceberg/tables.py:SparkTables.rename_table": LEASE,
    "iceberg/tables.py:SparkTables._write_place": LEASE,
    "store/places.py:leave": LEASE,
    "views/versions/renaming.py:take_over": LEASE,
    "iceberg/tables.py:make_table": LEASE,
    "iceberg/tables.py:with_columns": LEASE,
    "iceberg/tables.py:SparkTables.end_version": LEASE,
    "iceberg/versions/swap.py:SwapCommit.commit": TABLE,
    "iceberg/versions/swap.py:TagRemoval.commit": LEASE,
    "iceberg/versions/swap.py:make_version": LEASE,
    "tables/table.py:KeyedTable.__init__": "Log.of asks",
    "tasks/memories.py:MemoryFiles._delete": OPEN,
    "runtime/owners.py:move": "it is what asks, or `tidegate adopt`",
    "views/versions/held.py:let_stand": "looks at the owner first, under Context.lease",
    "views/versions/held.py:_set": "looks at the owner first, under Context.lease",
    "views/versions/keeping.py:forget_versions": "looks at the owner first, under Context.lease or that of upkeep",
    "views/versions/build.py:VersionBuild._marked_stale": "`_swap` has asked of each reader",
    "views/versions/build.py:VersionBuild._swap": "under Context.lease; of each reader it asks",
    "iceberg/retire.py:_forget": LEASE,
    "iceberg/retire.py:retire": LEASE,
    "ingest/erased.py:forget_superseded": LEASE,
    "maintenance/erase_history.py:forget_history": LEASE,
    "maintenance/erase_branches.py:remove_folder": "of a table that Context.forget has dropped, which asks first",
    "maintenance/erasing.py:ErasingFile.remove": LEASE,
    "maintenance/erasing.py:ErasingFile.write": LEASE,
    "iceberg/upkeep_table.py:SparkUpkeep.forget_names": LEASE,
    "iceberg/upkeep_table.py:SparkUpkeep.forget_removed": LEASE,
    "sinks/filesystem.py:FilesystemSink._finish": SINK,
    "sinks/filesystem.py:FilesystemSink._remove": SINK,
    "sinks/iceberg.py:IcebergSink._append": SINK,
    "sinks/iceberg.py:IcebergSink._merge": SINK,
    "sinks/iceberg.py:IcebergSink._say": SINK,
    "sinks/iceberg.py:IcebergSink.replace": SINK,
    "sinks/sink_columns.py:add_columns": SINK,
    "sinks/iceberg.py:IcebergSink.begin": "looks at the namespace, and at the table that is made",
    "sinks/kafka.py:KafkaSink.forget": SINK,
    "sinks/statefile.py:StateFile.tidy": SINK,
    "sinks/statefile.py:StateFile.remove": SINK,
    "sinks/statefile.py:StateFile.write": SINK,
    "ingest/sources/replay.py:ReplayConnector.pending": OPEN,
    "ingest/stream.py:PlanInbox.forget": OPEN,
    "ingest/stream.py:PlanInbox.tidy": OPEN,
    "ingest/stream.py:PlanInbox.write": OPEN,
    "tables/table.py:KeyedTable._go_back": OPEN,
    "tables/table.py:KeyedTable._merge": OPEN,
    "tables/table.py:KeyedTable.cleanup": OPEN,
    "tables/table.py:KeyedTable.catch_up": OPEN,
    "tables/table.py:KeyedTable.compact": OPEN,
    "tables/table.py:KeyedTable.expire_snapshots": OPEN,
    "ingest/ingest.py:Log._commit": OPEN,
    "views/retention.py:cleanup": "opened under Context.lease",
    "iceberg/lease_tables.py:LeaseTables._remove": "of a lease of live mode, which has asked when it was taken",
    "iceberg/lease_tables.py:LeaseTables.change": "as above",
    "iceberg/lease_tables.py:LeaseTables.drop": "as above",
    "iceberg/lease_tables.py:LeaseTables.make": "CatalogLeases asks first",
    "maintenance/upkeep.py:_Work._compact": LEASE,
    "maintenance/upkeep.py:_Work._expire": LEASE,
    "maintenance/upkeep.py:_Work._orphans": LEASE,
    "maintenance/upkeep.py:_Work._retire": LEASE,
    "iceberg/upkeep_table.py:SparkUpkeep._expired": LEASE,
    "iceberg/upkeep_table.py:SparkUpkeep._keep_bounds": LEASE,
    "iceberg/upkeep_table.py:SparkUpkeep._one_commit": LEASE,
    "iceberg/upkeep_table.py:SparkUpkeep._put_rewritten": LEASE,
    "iceberg/upkeep_table.py:SparkUpkeep.compact": LEASE,
    "iceberg/upkeep_table.py:SparkUpkeep.expire": LEASE,
    "iceberg/upkeep_table.py:SparkUpkeep.merge_manifests": LEASE,
    "iceberg/upkeep_table.py:SparkUpkeep.remove_files": LEASE,
    "iceberg/upkeep_table.py:SparkUpkeep.remove_orphans": LEASE,
    "maintenance/erase.py:_SourceErasure._forget_versions": LEASE,
    "maintenance/erase_state.py:StateErasure.remove": LEASE,
    "maintenance/erase_sinks.py:SinkErasure.remove": SINK,
    "views/versions/past.py:keep": LEASE,
    "views/view_table.py:ViewTable.__init__": LEASE,
    "store/sqlite_catalog.py:forget": "of a table whose folder is gone; move_catalog asks for the others",
    "tasks/writer.py:FileWriter.abandon": "in a task of a batch, of its own files",
}


@pytest.mark.medium
def test_X3_whoever_writes_has_asked_for_the_owner() -> None:
    assert sorted(writers()) == sorted(GUARDS)


def test_X3_the_three_gates_ask() -> None:
    """What the list above relies on: a lease, an open log and a drop can't be had without."""
    functions = {
        name: node
        for file in ("runtime/context.py", "ingest/ingest.py")
        for name, node in _functions(ast.parse((PACKAGE / file).read_text("utf-8")), "")
    }
    for gate, asks in (
        ("Context.lease", "require_own_once"),
        ("Log.of", "require_own_once"),
        ("Context.require_own_once", "require_own"),
        ("Context.forget", "require_own"),
    ):
        calls = [n.func for n in ast.walk(functions[gate]) if isinstance(n, ast.Call)]
        assert any(isinstance(c, ast.Attribute) and c.attr == asks for c in calls), gate


def writers() -> Iterator[str]:
    for path in sorted(p for room in ROOMS for p in (PACKAGE / room).rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        for function, node in _functions(tree, ""):
            if _writes(node):
                yield f"{path.relative_to(PACKAGE).as_posix()}:{function}"


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.FunctionDef):
            yield f"{prefix}{child.name}", child


def _called(node: ast.Call, method: ast.Attribute) -> str:
    """The name of a method, also of one that is called with others (`jvm/calls.py`)."""
    name = node.args[1] if method.attr == "call" and len(node.args) > 1 else None
    return str(name.value) if isinstance(name, ast.Constant) else method.attr


def _writes(function: ast.AST) -> bool:
    doc = ast.get_docstring(function, clean=False)  # type: ignore[arg-type]
    for node in ast.walk(function):
        text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else doc
        if text is not doc and SQL.search(text or ""):
            return True
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Attribute) and _called(node, node.func) in CALLS | ACTIONS:
            return True
        if isinstance(node.func, ast.Name) and node.func.id in PUTS:
            return True
    return False
