"""The shape of the code base: no import upward and none in a circle, heavy things where they belong, nothing too
long."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGE = ROOT / "platform" / "tidegate"
#: The rooms that run on Spark.
SPARK = {"session", "maintenance", "sinks", "views", "ingest", "runtime", "tables", "iceberg", "jvm", "tasks"}
#: Where a library may be imported at all (inside functions, too).
HOME = {
    "pyspark": {*SPARK, "audit", "advise", "quality", "dagster"},
    "dagster": {"dagster"},
    "dagster_pyspark": {"dagster"},
    "sqlglot": {"sql"},
    "pandas": {"quality"},
    "great_expectations": {"quality"},
    "matplotlib": {"plots"},
    "typer": {"cli"},
    "jinja2": {"pages"},
    "prompt_toolkit": {"cli"},
    "prometheus_client": {"live"},
    "pyiceberg": {"store", "iceberg", "cli"},
    "kafka": {"store"},
    "apprise": {"alerts"},
    "fastavro": {"tasks"},
    "google": {"tasks", "project"},
    "grpc_tools": {"project"},
}
#: Imported for what it says (versions, a session that runs), not for what it does.
EXCUSED = {
    ("cli/diagnosis.py", "pyspark"),
    ("cli/diagnosis.py", "dagster"),
}


def modules() -> list[Path]:
    return sorted(p for p in PACKAGE.rglob("*.py") if "template" not in p.parts)


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Every module that a file imports, wherever in it, but not under TYPE_CHECKING."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module, node.lineno


def test_rooms_and_files_import_as_pyproject_says() -> None:
    """What `make lint` checks of imports; this suite is all that CI runs."""
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_libraries_are_imported_where_they_are_at_home(path: Path) -> None:
    relative = path.relative_to(PACKAGE)
    here = relative.parts[0].removesuffix(".py")
    wrong = []
    for name, line in imports(path):
        library = name.split(".")[0]
        at_home = here == "__init__" or here in HOME.get(library, {here})
        if not at_home and (str(relative), library) not in EXCUSED:
            wrong.append(f"line {line}: {library} is imported in {here}")
    assert not wrong


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_files_can_be_read_in_one_sitting(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 450


def test_the_source_root_does_not_shadow_the_standard_library() -> None:
    assert not (ROOT / "platform" / "__init__.py").exists()
    code = "import platform, sys; print(platform.python_version())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip().startswith("3.")


@pytest.mark.parametrize("module", ["tidegate", "tidegate.sql", "tidegate.project", "tidegate.cli.main"])
def test_importing_loads_no_engine(module: str) -> None:
    code = f"import {module}, sys; print([m for m in ('pyspark', 'dagster', 'pandas') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_executors_need_no_more_than_numpy_and_pyarrow() -> None:
    """What tasks unpickle on other machines: no parser, no validator, no Spark of the driver's."""
    modules = "gate panes writer preceding parquet.parquet parquet.footers decode.arrow_json"
    code = "".join(f"import tidegate.tasks.{name}\n" for name in modules.split())
    code += "import sys; print(*sorted({'sqlglot', 'pydantic', 'pyiceberg', 'yaml', 'typer'} & sys.modules.keys()))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == ""
