"""Names inside: no column that the engine puts beside a user's has a name that a statement can write."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.test_architecture import SPARK
from tidegate.errors import TidegateError
from tidegate.sql.catalog.objects import RESERVED_BEGINNINGS, RESERVED_COLUMNS
from tidegate.sql.dialect.inner_names import inner, unless_taken
from tidegate.sql.statements.analysis import load_catalog

PACKAGE = ROOT / "platform" / "tidegate"
#: Those with columns beside users' columns.
ROOMS = ("advise", "amend", "audit", "quality", "sql", *SPARK)
#: A word with an underscore in front that is not a part of a longer one, of a path or of a system table's name.
WORD = re.compile(r"(?<![\w$./{-])_[a-z]\w*")
STORED = "stored since the first release, under another name where a column is called so (`unless_taken`)"
ARROW = "in tables of Arrow whose columns are numbered"
DECODED = "a decoder's columns are numbered"
VIEW = "a temporary view"
OPTION = "a part of an option's or a method's name, no column"
#: What is no such column, and why.
ALLOWED = {
    "audit/backup.py": {"_tidegate": "a folder", "_streams": "a folder", "_replay": "a folder"},
    "audit/memory_files.py": {"_streams": "a folder"},
    "iceberg/layout.py": {"_carried": STORED},
    "ingest/sources/replay.py": {"_seq": STORED},
    "sql/views/joins.py": {"_time_": STORED, "_using_": STORED},
    "sql/views/select_items.py": {"_column_": STORED},
    "tasks/pane_parts.py": {"_pane": ARROW, "_last": ARROW},
    "tasks/session_panes.py": {"_number": ARROW},
    "tasks/decode/text/bulk.py": {"_text": DECODED, "_whole": DECODED},
    "ingest/sources/conversion.py": {"_text": DECODED, "_whole": DECODED},
    "ingest/sources/decode.py": {
        "_decode_value": "beside columns of the connector",
        "_decode_row": "beside columns of the connector",
    },
    "runtime/queries.py": {"_tidegate_": VIEW},
    "sinks/iceberg.py": {"_tidegate_amended": VIEW},
    "iceberg/commit.py": {"_tidegate_changes": VIEW},
    "sql/statements/inserts.py": {"_v": "the alias of a relation whose columns are numbered"},
    "sinks/filesystem.py": {"_tidegate": "a folder"},
    "sql/options/sink_connectors.py": {"_streams": "a folder"},
    "ingest/sources/files.py": {"_copying_": "in names of files"},
    "jvm/spark.py": {"_tidegate_shipped": "a module"},
    "jvm/core_jobs.py": {"_tidegate_core": "an attribute", "_jsparkSession": "an attribute of PySpark's"},
    "jvm/gathered.py": {"_tidegate_gatherer": "an attribute", "_tidegate_jobs": "an attribute"},
    "jvm/java.py": {"_tidegate_known": "an attribute"},
    "jvm/calls.py": {"_tidegate_calls": "an attribute", "_tidegate_calls_asked": "an attribute"},
    "jvm/exit_hooks.py": {"_tidegate_exit_hooks": "an attribute"},
    "sql/grammar/create_syntax.py": {"_rw_kafka_": "what RisingWave calls it, refused or given by the user"},
    "sql/resolve/scope.py": {"_by_name": OPTION},
    "tasks/decode/text/arrow_json.py": {"_long": "in messages as the broker has them"},
    "tasks/kafka/records.py": {"_long": "in messages as the broker has them"},
    "ingest/sources/kafka_messages.py": {"_long": "in messages as the broker has them"},
    "tasks/decode/binary/avro.py": {"_versions": OPTION},
    "tasks/decode/binary/protobuf.py": {"_versions": OPTION, "_pools": OPTION},
    "tasks/decode/text/decoders.py": {"_shapes": OPTION},
    "sql/dialect/text.py": {"_starts": OPTION},
}


def texts(tree: ast.AST) -> Iterator[tuple[str, bool, bool]]:
    """The string constants but for docstrings; whether each goes on from a value (as in `f"{x}_sum"`), and whether a
    value follows it."""
    skipped = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    behind, before = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            for one, next_ in itertools.pairwise(node.values):
                behind |= {id(next_)} if isinstance(one, ast.FormattedValue) else set()
                before |= {id(one)} if isinstance(next_, ast.FormattedValue) else set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value, id(node) in behind, id(node) in before


def written(path: Path) -> set[str]:
    """The names with an underscore in front that a file writes in a string, and that a user could write, too."""
    found = set()
    for text, behind, before in texts(ast.parse(path.read_text())):
        for match in WORD.finditer(text):
            name, whole = match.group(), not (before and match.end() == len(text))
            if name.startswith(RESERVED_BEGINNINGS) or (whole and name in RESERVED_COLUMNS):
                continue
            if not (behind and match.start() == 0):
                found.add(name)
    return found


@pytest.mark.medium
def test_names_of_columns_beside_users_columns_are_made_by_inner() -> None:
    """A new column of the engine's own: `inner("name")`. A new name that no user's column stands beside: `ALLOWED`."""
    found = {}
    for room in ROOMS:
        for path in (PACKAGE / room).rglob("*.py"):
            if names := written(path):
                found[path.relative_to(PACKAGE).as_posix()] = names
    assert found == {name: set(allowed) for name, allowed in ALLOWED.items()}


def test_the_check_sees_aliases_and_names_in_sql_and_in_f_strings(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(
        '"""_doc"""\nF.col("_x").alias(f"_key{i}")\nsql(f"SELECT 1 AS `_y`, {a}_z, _tick FROM `x_w`")\n'
    )
    assert written(path) == {"_x", "_key", "_y"}


def test_TG205_no_statement_can_write_an_inner_name() -> None:
    columns = f'"{inner("kind")}" INT, ts TIMESTAMP, WATERMARK FOR ts AS ts'
    with pytest.raises(TidegateError) as caught:
        load_catalog([("a.sql", f"CREATE TABLE t ({columns}) APPEND ONLY")])
    assert caught.value.code == "TG205"
    assert unless_taken("_seq", ["a", "_SEQ"]) == inner("_seq")
    assert unless_taken("_seq", ["a"]) == "_seq"
