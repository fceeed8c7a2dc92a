"""What CONTRIBUTING.md and the pages about the code say is so: rooms, files, hooks, the Python API."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

import tidegate
from infra import rooms
from tests.conftest import ROOT

PAGES = [
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "docs" / "architecture.md",
    # The page about one house also names what stood where before.
    *(page for page in sorted((ROOT / "docs" / "decisions").glob("*.md")) if page.stem != "one-house"),
]
EXAMPLES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: A file in backticks, with or without the folders that it is in.
_FILE = re.compile(r"`([\w.-]+(?:/[\w.-]+)*\.(?:py|sql|slt|md|json|toml|ya?ml|lock|sha256))`")
#: The same in a drawing, with the room that it is in.
_DRAWN = re.compile(r"\b(?:engine|sql|store|plan|project|watermark|live|audit|findings)/[\w/]+\.py\b")
#: A function or class behind its module or class.
_NAME = re.compile(r"`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)`")
_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def house() -> dict[str, rooms.Room]:
    return rooms.rooms()


@pytest.mark.medium
def test_the_picture_and_the_table_of_rooms_are_those_of_today(house: dict[str, rooms.Room]) -> None:
    advice = "imports between rooms have changed: run python -m infra.rooms, and look at the picture"
    assert rooms.PICTURE.read_text("utf-8") == rooms.picture(house), advice
    assert rooms.PAGE.read_text("utf-8") == rooms.page(house), advice


def test_every_room_says_what_it_is(house: dict[str, rooms.Room]) -> None:
    assert not [room.name for room in house.values() if len(room.says) < 20]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_file_that_is_named_is_there(page: Path) -> None:
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True)
    files = [f"/{name}" for name in listed.stdout.splitlines() if (ROOT / name).exists()]
    # What commands write into dist/ is nobody's source.
    text = page.read_text("utf-8")
    named = {name for name in [*_FILE.findall(text), *_DRAWN.findall(text)] if not name.startswith("dist/")}
    assert not [name for name in named if not any(file.endswith(f"/{name}") for file in files)]


@cache
def defined() -> frozenset[str]:
    """Every module, function, class and attribute of the package, by its last name."""
    found = {path.stem for path in rooms.PACKAGE.rglob("*.py")}
    for path in rooms.PACKAGE.rglob("*.py"):
        text = path.read_text("utf-8")
        found.update(re.findall(r"^ *(?:def|class) (\w+)", text, re.MULTILINE))
        found.update(re.findall(r"^ *(?:self\.)?(\w+)(?:: [^=\n]+)? = ", text, re.MULTILINE))
    return frozenset(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_function_that_is_named_with_its_place_is_there(page: Path) -> None:
    named = [name.split(".") for name in _NAME.findall(page.read_text("utf-8"))]
    # (Both are modules of ours, too; so written they begin settings of theirs.)
    ours = [parts for parts in named if parts[0] in defined() - {"spark", "parquet"}]
    assert not [".".join(parts) for parts in ours if parts[-1] not in defined() | {"py", "md"}]


def test_every_decision_is_in_the_index_and_has_its_sections() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text("utf-8")
    for page in folder.glob("[a-z]*.md"):
        assert f"]({page.name})" in index
        assert "\n## Context\n" in page.read_text("utf-8")


def test_pre_commit_checks_what_make_lint_checks_and_fetches_nothing() -> None:
    settings = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    assert [repository["repo"] for repository in settings["repos"]] == ["local"]
    (hook,) = settings["repos"][0]["hooks"]
    assert hook["entry"].split()[0] == "make"
    assert hook["entry"].split()[-1] == "lint"
    assert hook["language"] == "system"


def test_every_public_name_is_there_and_says_what_it_is() -> None:
    for name in tidegate.__all__:
        assert name == "__version__" or getattr(tidegate, name).__doc__, name
    with pytest.raises(AttributeError):
        tidegate.no_such_name  # noqa: B018


def examples() -> Iterator[tuple[str, str]]:
    """Every Python example that uses tidegate: where it stands, and its text."""
    pages = [(page.name, page.read_text("utf-8")) for page in EXAMPLES]
    template = (rooms.PACKAGE / "cli" / "template" / "tests" / "test_orders.py").read_text("utf-8")
    pages += [
        ("tidegate", inspect.cleandoc(tidegate.__doc__ or "")),
        ("template", f"```python\n{template}```"),
    ]
    for name, text in pages:
        for number, example in enumerate(_PYTHON.findall(text + "\n")):
            if "tidegate" in example:
                yield f"{name}-{number}", example


@pytest.mark.parametrize(("where", "example"), examples(), ids=lambda x: x if "\n" not in x else "")
def test_every_example_uses_public_names_only(where: str, example: str) -> None:
    tree = ast.parse(example)
    sessions = {
        item.optional_vars.id
        for node in ast.walk(tree)
        if isinstance(node, ast.With)
        for item in node.items
        if isinstance(item.optional_vars, ast.Name) and "tidegate.connect" in ast.unparse(item.context_expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tidegate":
            assert node.module in ("tidegate", "tidegate.dagster")
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "tidegate":
                assert node.attr in tidegate.__all__
            elif node.value.id in sessions:
                assert not node.attr.startswith("_")
                assert hasattr(tidegate.Session, node.attr)


@pytest.mark.medium
def test_every_example_type_checks(tmp_path: Path) -> None:
    """As strictly as the package itself, with its settings; in `make test` after the package, whose types are kept."""
    for where, example in examples():
        (tmp_path / f"{re.sub(r'[^a-z0-9]', '_', where)}.py").write_text(example, encoding="utf-8")
    mypy = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
    files = map(str, sorted(tmp_path.glob("*.py")))
    done = subprocess.run([*mypy, *files], cwd=ROOT, capture_output=True, text=True, check=False)
    assert not [line for line in done.stdout.splitlines() if line.startswith(str(tmp_path))], done.stdout
    assert done.returncode in (0, 1), done.stderr


def test_there_are_examples() -> None:
    assert {where.split("-")[0] for where, _ in examples()} >= {"README.md", "tidegate", "template"}
