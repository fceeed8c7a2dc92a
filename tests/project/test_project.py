"""Finding and loading projects; definitions made interactively."""

from __future__ import annotations

import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import tidegate
from tidegate.errors import TidegateError
from tidegate.project import Project
from tidegate.project.codes import CODES
from tidegate.project.folder import find_root


def refused(root: Path, env: str = "local") -> TidegateError:
    with pytest.raises(TidegateError) as caught:
        Project.load(root, env)
    return caught.value


def test_a_folder_without_assets_or_resources_is_no_project(tmp_path: Path) -> None:
    error = refused(tmp_path)
    assert (error.code, error.hint) == ("TG601", "tidegate init DIR creates one")
    assert "does not exist" in refused(tmp_path / "nowhere").message


def test_local_needs_no_file(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    project = Project.load(tmp_path)
    assert project.env.spark.master == "local[2]"
    assert project.storage.local_warehouse == tmp_path / ".tidegate" / "warehouse"
    assert not project.state_dir.exists()


def test_unknown_environment_did_you_mean(tmp_path: Path) -> None:
    (tmp_path / "resources").mkdir()
    (tmp_path / "resources" / "cluster.yaml").write_text("spark: {master: yarn}\n")
    assert Project.load(tmp_path, "cluster").env.spark.master == "yarn"
    error = refused(tmp_path, "clster")
    assert (error.code, error.hint) == ("TG602", 'did you mean "cluster"?')
    assert refused(tmp_path, "zzz").hint == "environments: cluster, local"
    assert refused(tmp_path, "../resources/cluster").code == "TG602"


def test_a_compiled_sqlglot_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "assets").mkdir()
    monkeypatch.setattr("sqlglot.parser.__file__", "sqlglot/parser.cpython-311-x86_64-linux-gnu.so")
    with pytest.raises(TidegateError) as caught:
        Project.load(tmp_path).catalog()
    assert caught.value.code == "TG625"
    assert "pip uninstall sqlglotc" in str(caught.value)


def test_assets_come_in_a_fixed_order_then_definitions(tmp_path: Path) -> None:
    (tmp_path / "assets" / "deep").mkdir(parents=True)
    for name in ("b.sql", "a.sql", "deep/c.sql", "note.txt"):
        (tmp_path / "assets" / name).write_text(f"-- {name}")
    project = Project.load(tmp_path)
    project.save_definition("made up$", "CREATE SOURCE x;\n")
    assert [file for file, _ in project.assets()] == [
        "assets/a.sql",
        "assets/b.sql",
        "assets/deep/c.sql",
        ".tidegate/definitions/local/made%20up%24.sql",
    ]
    assert project.assets()[-1][1] == "CREATE SOURCE x;\n"
    assert project.drop_definition("made up$")
    assert not project.drop_definition("made up$")
    assert len(project.assets()) == 3


def test_threads_that_define_the_same_name_leave_one_of_their_texts(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    project, texts = Project.load(tmp_path), [f"CREATE TABLE t (c{n} INT)" for n in range(8)]
    with ThreadPoolExecutor(8) as threads:
        for _ in range(20):
            files = {*threads.map(lambda text: project.save_definition("t", text), texts)}
    (file,) = files
    assert file.read_text().removesuffix(";\n") in texts
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_X3_what_a_statement_makes_belongs_to_its_environment(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "resources").mkdir()
    (tmp_path / "resources" / "dev.yaml").write_text("warehouse: {namespace: dev}\n")
    every = tmp_path / ".tidegate" / "definitions"
    every.mkdir(parents=True)
    # Of a release that kept one folder for all environments.
    (every / "old.sql").write_text("CREATE TABLE old (id INT);\n")
    local, dev = Project.load(tmp_path), Project.load(tmp_path, "dev")
    assert dev.assets() == []
    dev.save_definition("mine", "CREATE TABLE mine (id INT)")
    assert (dev.is_interactive("mine"), local.is_interactive("mine")) == (True, False)
    assert [name for name, _ in local.assets()] == [".tidegate/definitions/local/old.sql"]
    assert [name for name, _ in dev.assets()] == [".tidegate/definitions/dev/mine.sql"]
    assert [p.name for p in every.glob("*.sql")] == []
    assert local.drop_definition("old")
    assert (local.catalog().names(), dev.catalog().names()) == ([], ["mine"])


def test_a_byte_order_mark_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "a.sql").write_text("CREATE TABLE t (id INT);", encoding="utf-8-sig")
    assert Project.load(tmp_path).catalog().names() == ["t"]


def test_assets_that_are_not_text_are_named(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "bad.sql").write_bytes(b"SELECT \xff")
    with pytest.raises(TidegateError, match=r"assets/bad.sql is not UTF-8 text \(byte 7\)"):
        Project.load(tmp_path).assets()


def test_the_nearest_parent_is_found_but_not_any_folder_called_assets(tmp_path: Path) -> None:
    inner = tmp_path / "project" / "notes" / "deep"
    inner.mkdir(parents=True)
    (tmp_path / "assets").mkdir()
    assert find_root(inner) == inner
    (tmp_path / "project" / "assets").mkdir()
    (tmp_path / "project" / "assets" / "a.sql").touch()
    assert find_root(inner) == tmp_path / "project"


def test_temporary_projects_are_removed_and_no_other(tmp_path: Path) -> None:
    temporary = Project.temporary()
    assert temporary.assets() == []
    temporary.remove()
    assert not temporary.root.exists()
    (tmp_path / "assets").mkdir()
    Project.load(tmp_path).remove()
    assert tmp_path.exists()


def test_projects_travel_to_executors(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    project = Project.load(tmp_path)
    assert pickle.loads(pickle.dumps(project.storage)) == project.storage


def test_every_code_is_used_and_every_used_code_is_explained() -> None:
    package = Path(tidegate.__file__).parent
    sources = [
        p for room in ("project", "store") for p in (package / room).rglob("*.py") if p.stem != "codes"
    ]
    used = {code for p in sources for code in re.findall(r"TG6\d\d", p.read_text())}
    assert used == set(CODES)
