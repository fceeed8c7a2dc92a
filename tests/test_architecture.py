"""The shape of the code base: no import upward and none in a circle, heavy things where they belong, nothing too
long."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.medium

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
    "pyiceberg": {"store", "iceberg", "audit", "cli"},
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

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
NESTING = (
    *(ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith),
    *(ast.Try, ast.TryStar, ast.Match),
)
#: Of a folder, `__init__.py` aside.
MOST_FILES_OF_A_FOLDER = 20
MOST_LINES_OF_A_FILE, LINES_OF_A_SMALL_FILE = 400, 20
MOST_LINES_OF_A_FUNCTION, MOST_LEVELS = 60, 4


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


def sources() -> list[Path]:
    """The package, what builds and shows it, and what tests both."""
    others = (path for room in ("infra", "tests") for path in sorted((ROOT / room).rglob("*.py")))
    return [*modules(), *others]


def test_no_folder_is_full() -> None:
    """Data of tests, too. A folder with more in it holds several things, each of which has a name."""
    rooms = (ROOT / "platform" / "tidegate", ROOT / "infra", ROOT / "tests")
    files = (p for room in rooms for p in room.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    counted = Counter(p.parent for p in files if p.name != "__init__.py")
    full = {str(p.relative_to(ROOT)): n for p, n in counted.items() if n > MOST_FILES_OF_A_FOLDER}
    assert not full


def test_no_file_is_long() -> None:
    long = {str(p.relative_to(ROOT)): n for p in sources() if (n := lines_of(p)) > MOST_LINES_OF_A_FILE}
    assert not long


def test_a_small_file_has_a_reason() -> None:
    """Confetti: two files to open for one thing to understand. The docstring says what is gained by it."""
    for path in sources():
        said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")), clean=False) or ""
        lines = lines_of(path) - len(said.splitlines())
        small = path.name not in ("__init__.py", "conftest.py") and lines < LINES_OF_A_SMALL_FILE
        assert small == ("\nA file of its own: " in said), path


def test_functions_can_be_read_in_one_look() -> None:
    found = {f"{p.relative_to(ROOT)} {long}" for p in sources() for long in hard_to_read(p)}
    assert not found


def hard_to_read(path: Path) -> Iterator[str]:
    """The functions of a file that are too long, docstring aside, or nested too deeply."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, FUNCTION):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            if ast.get_docstring(node) is not None:
                said = node.body[0]
                assert said.end_lineno is not None
                lines -= said.end_lineno - said.lineno + 1
            if lines > MOST_LINES_OF_A_FUNCTION or nesting(node) > MOST_LEVELS:
                yield node.name


def nesting(node: ast.AST) -> int:
    """How many statements with a body stand in each other; `elif` is on the level of its `if`, a function within has
    levels of its own."""
    deepest = 0
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (*FUNCTION, ast.ClassDef)):
            is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and node.orelse == [child]
            deepest = max(deepest, nesting(child) + (isinstance(child, NESTING) and not is_elif))
    return deepest


@pytest.mark.parametrize(
    ("code", "levels"),
    [
        ("x = 1", 0),
        ("if a:\n  x\nelif b:\n  y\nelse:\n  z", 1),
        ("if a:\n  x\nelse:\n  if b:\n    y\n  z", 2),
        ("for a in b:\n  with c:\n    try:\n      x\n    except E:\n      if d:\n        y", 4),
        ("while a:\n  def inner():\n    if b:\n      x", 1),
        ("match a:\n  case 1:\n    if b:\n      x", 2),
    ],
)
def test_levels_are_counted(code: str, levels: int) -> None:
    assert nesting(ast.parse(code)) == levels


def test_a_class_has_a_name_of_its_own() -> None:
    """Who reads a name in one room need not ask which of several classes it is."""
    homes: dict[str, set[str]] = {}
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, set()).add(str(path.relative_to(PACKAGE)))
    twins = {name: sorted(files) for name, files in homes.items() if len(files) > 1}
    assert not twins


def lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


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
    modules = "gate panes writer preceding parquet.parquet parquet.footers decode.text.arrow_json"
    code = "".join(f"import tidegate.tasks.{name}\n" for name in modules.split())
    code += "import sys; print(*sorted({'sqlglot', 'pydantic', 'pyiceberg', 'yaml', 'typer'} & sys.modules.keys()))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == ""
